// Passes of a plan on a GpuTrainer: groups of lanes that step together, in order, as work of a stream. A step
// gathers its batch before and counts after, so equal steps enqueue equal work. A step that occurs a second time
// is stored as a graph of the device and costs one call from then on. So is a whole epoch whose groups of lanes
// recur.
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

// Some of the lanes: the first `count`, or those in LanePlan::ids from `at` on.
struct LaneList {
  int32_t count = 0;
  int64_t at = -1;  // -1: the first
  auto operator<=>(const LaneList&) const = default;
};

// Work of lanes with certain sizes and epochs, from the first pass to the last.
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

// Runner of passes. Not thread-safe.
class GpuPasses {
 public:
  GpuPasses(PassPrograms& programs, const GpuLaneMemory& memory, const GpuExamples& examples)
      : programs_(programs), memory_(memory), examples_(examples) {}

  // Whether a device can run it. UNIMPLEMENTED: an op without a kernel, batches of an input graph, or more than
  // gpu::kMostCounted numbers.
  Status Check(TaskKind kind, size_t pass);
  // Arena bytes of a lane for the programs of a pass.
  StatusOr<size_t> ArenaBytes(TaskKind kind, size_t pass, int64_t batch_size);
  // The plan for these lanes. Compiles missing programs, so that a plan which cannot be compiled for the smallest
  // remainder fails before any training.
  StatusOr<LanePlan> PlanFor(TaskKind kind, std::span<const GpuLane> lanes);

  // Enqueues pass `pass` of the plan for `lanes` lanes on the stream, over the reserved memory: first its begin program
  // and its steps, then its end program.
  Status EnqueueSteps(GpuStream& stream, TaskKind kind, size_t pass, const LanePlan& plan, int lanes,
                      const CancellationToken& cancel);
  Status EnqueueEnd(GpuStream& stream, TaskKind kind, size_t pass, int lanes);
  // Drops all graphs, since they contain addresses: call it when the memory or the examples have moved.
  void Forget();

 private:
  // Beyond this, clients of ever new sizes would fill the memory.
  static constexpr size_t kMostGraphs = 512;
  // A graph of an epoch contains each of its steps; a longer epoch runs step by step.
  static constexpr int64_t kMostStepsOfAGraph = 256;
  struct Kept {
    int64_t first_plan = 0;  // the plan in which it was first used; 0: none
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
  // Enqueues a whole epoch, also for a capture.
  Status Epoch(GpuStream& stream, TaskKind kind, size_t pass, const LanePlan::Epoch& epoch);
  Status ClearSums(GpuStream& stream, size_t pass, const LanePlan::Epoch& epoch);
  // Finds an entry of `graphs`; adds one if missing.
  template <typename Key>
  StatusOr<Kept*> KeptOf(GpuStream& stream, std::map<Key, Kept>& graphs, const Key& key);
  // Runs the work that `work` enqueues, as a graph.
  template <typename Work>
  Status RunAsGraph(GpuStream& stream, Kept& kept, const Work& work);
  Status RunGroup(GpuStream& stream, TaskKind kind, size_t pass, const LanePlan::Group& group,
                  const CancellationToken& cancel);
  Status Step(GpuStream& stream, TaskKind kind, size_t pass, int64_t batch_size, const GpuLanes& lanes);

  PassPrograms& programs_;
  const GpuLaneMemory& memory_;
  const GpuExamples& examples_;
  int64_t plans_ = 0;  // number of plans made
  std::map<std::shared_ptr<const GpuProgram>, std::unique_ptr<GpuInstance>> instances_;
  // The program, the number of lanes, and whether the lanes are listed.
  using StepKey = std::tuple<const GpuProgram*, int32_t, bool>;
  std::map<StepKey, Kept> steps_;
  using EpochKey = std::tuple<TaskKind, size_t, LanePlan::Epoch>;
  std::map<EpochKey, Kept> epochs_;
};

}  // namespace rivulet
