// Passes of a plan on a GpuTrainer: which lanes step together, in which order, as work of a stream. A step gathers its
// batch before and counts after, so equal steps enqueue equal work. A step that occurs a second time is kept as a
// graph of the device and costs one call from then on. So is a whole epoch whose groups of lanes recur with other
// clients.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "client/training/device/gpu_examples.h"
#include "client/training/device/gpu_lane_memory.h"
#include "client/training/device/gpu_lanes.h"
#include "client/training/pass_programs.h"
#include "engine/program/gpu_program.h"
#include "engine/program/lane_schedule.h"

namespace rivulet {

// Some of the lanes: the first `count`, or those that stand in LanePlan::ids from `at` on.
struct LaneList {
  int32_t count = 0;
  int64_t at = -1;  // -1: the first
  auto operator<=>(const LaneList&) const = default;
};

// What lanes of certain sizes and epochs do, from the first pass to the last.
struct LanePlan {
  struct Group {
    int64_t batch_size = 0, times = 1;
    LaneList lanes;
    auto operator<=>(const Group&) const = default;
  };
  struct Epoch {
    LaneList beginners;
    std::vector<Group> groups;
    auto operator<=>(const Epoch&) const = default;
    int64_t steps() const;
  };
  struct Pass {
    std::vector<Epoch> epochs;
    std::vector<int64_t> steps;  // by lane
  };
  std::vector<Pass> passes;
  std::vector<int32_t> ids;
  size_t arena_bytes = 0;  // of the largest program
};

// Not thread-safe.
class GpuPasses {
 public:
  GpuPasses(PassPrograms& programs, const GpuLaneMemory& memory, const GpuExamples& examples)
      : programs_(programs), memory_(memory), examples_(examples) {}

  // Whether a device can run it. UNIMPLEMENTED: an op without a kernel, batches of an input graph, or more than
  // gpu::kMostCounted numbers.
  Status Check(TaskKind kind, size_t pass);
  // Of the programs of a pass, a lane's.
  StatusOr<size_t> ArenaBytes(TaskKind kind, size_t pass, int64_t batch_size);
  // For these lanes. Compiles what is missing, so that a plan that cannot be compiled for the smallest rest
  // fails before anything was trained.
  StatusOr<LanePlan> PlanFor(TaskKind kind, std::span<const GpuLane> lanes);

  // Puts pass `pass` of the plan for `lanes` lanes into the stream, over the memory as it was reserved: what it begins
  // with and its steps, and then what it ends with.
  Status EnqueueSteps(GpuStream& stream, TaskKind kind, size_t pass, const LanePlan& plan, int lanes,
                      const CancellationToken& cancel);
  Status EnqueueEnd(GpuStream& stream, TaskKind kind, size_t pass, int lanes);
  // Graphs hold addresses: to be called when the memory, or the examples, have moved.
  void Forget();

 private:
  // More would be kept for ever by clients of ever new sizes.
  static constexpr size_t kMostGraphs = 512;
  // A graph of an epoch holds each of its steps; a longer one is run step by step.
  static constexpr int64_t kMostStepsOfAGraph = 256;
  struct Kept {
    int64_t first_plan = 0;  // in which it was met first; 0: never
    std::unique_ptr<GpuGraph> graph;
  };

  const LocalPass& PassOf(TaskKind kind, size_t pass) const;
  StatusOr<GpuInstance*> InstanceOf(GpuStream& stream, const std::shared_ptr<const GpuProgram>& program);
  GpuBindings Bindings(const GpuLanes& lanes) const;
  GpuLanes LanesOf(const LaneList& list) const;
  Status RunWhole(GpuStream& stream, const std::shared_ptr<const GpuProgram>& program, const GpuLanes& lanes);
  Status RunEpoch(GpuStream& stream, TaskKind kind, size_t pass, const LanePlan::Epoch& epoch,
                  const CancellationToken& cancel);
  Status StepByStep(GpuStream& stream, TaskKind kind, size_t pass, const LanePlan::Epoch& epoch,
                    const CancellationToken& cancel);
  // All of it at once, as it is captured.
  Status Epoch(GpuStream& stream, TaskKind kind, size_t pass, const LanePlan::Epoch& epoch);
  Status ClearSums(GpuStream& stream, size_t pass, const LanePlan::Epoch& epoch);
  // Of `graphs`; a new one where there is none.
  template <typename Key>
  StatusOr<Kept*> KeptOf(GpuStream& stream, std::map<Key, Kept>& graphs, const Key& key);
  // What `work` puts into the stream, as a graph.
  template <typename Work>
  Status RunAsGraph(GpuStream& stream, Kept& kept, const Work& work);
  Status RunGroup(GpuStream& stream, TaskKind kind, size_t pass, const LanePlan::Group& group,
                  const CancellationToken& cancel);
  Status Step(GpuStream& stream, TaskKind kind, size_t pass, int64_t batch_size, const GpuLanes& lanes);

  PassPrograms& programs_;
  const GpuLaneMemory& memory_;
  const GpuExamples& examples_;
  int64_t plans_ = 0;  // that were made
  std::map<std::shared_ptr<const GpuProgram>, std::unique_ptr<GpuInstance>> instances_;
  // By program, number of lanes, and whether they are listed.
  using StepKey = std::tuple<const GpuProgram*, int32_t, bool>;
  std::map<StepKey, Kept> steps_;
  using EpochKey = std::tuple<TaskKind, size_t, LanePlan::Epoch>;
  std::map<EpochKey, Kept> epochs_;
};

}  // namespace rivulet
