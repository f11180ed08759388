// The passes of a plan as a GpuTrainer runs them: which lanes step together in which order, and the work of it put into
// a stream. A step that is met a second time is kept as a graph, with the gathering of its batch before and the
// counting after it, and is from then on one call.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "client/gpu_lane_memory.h"
#include "client/lane_schedule.h"
#include "client/pass_programs.h"
#include "engine/program/gpu_program.h"

namespace rivulet {

// Some of the lanes: the first `count`, or those that stand in LanePlan::ids from `at` on.
struct LaneList {
  int32_t count = 0;
  int64_t at = -1;  // -1: the first
};

// What lanes of certain sizes do, from the first pass to the last.
struct LanePlan {
  struct Group {
    int64_t batch_size = 0, times = 1;
    LaneList lanes;
  };
  struct Epoch {
    LaneList beginners;
    std::vector<Group> groups;
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
  GpuPasses(PassPrograms& programs, const GpuLaneMemory& memory) : programs_(programs), memory_(memory) {}

  // Whether a device can run it. UNIMPLEMENTED: an op without a kernel, batches of an input graph, or more than
  // gpu::kMostCounted numbers.
  Status Check(TaskKind kind, size_t pass);
  // Of the programs of a pass, a lane's.
  StatusOr<size_t> ArenaBytes(TaskKind kind, size_t pass, int64_t batch_size);
  // For lanes of these sizes. Compiles what is missing, so that a plan that cannot be compiled for the smallest rest
  // fails before anything was trained.
  StatusOr<LanePlan> PlanFor(TaskKind kind, std::span<const int64_t> sizes);

  // Puts pass `pass` of the plan for `lanes` lanes into the stream, over the memory as it was reserved.
  Status Enqueue(GpuStream& stream, TaskKind kind, size_t pass, const LanePlan& plan, int lanes,
                 const CancellationToken& cancel);
  // Graphs hold addresses: to be called when the memory has moved.
  void Forget() { graphs_.clear(); }

 private:
  // More would be kept for ever by clients of ever new sizes.
  static constexpr size_t kMostGraphs = 512;
  struct Kept {
    int runs = 0;
    std::unique_ptr<GpuGraph> graph;
  };

  const LocalPass& PassOf(TaskKind kind, size_t pass) const;
  StatusOr<GpuInstance*> InstanceOf(GpuStream& stream, const std::shared_ptr<const GpuProgram>& program);
  GpuBindings Bindings(const GpuLanes& lanes) const;
  GpuLanes LanesOf(const LaneList& list) const;
  Status RunWhole(GpuStream& stream, const std::shared_ptr<const GpuProgram>& program, const GpuLanes& lanes);
  Status RunGroup(GpuStream& stream, TaskKind kind, size_t pass, const LanePlan::Group& group,
                  const CancellationToken& cancel);
  Status Step(GpuStream& stream, TaskKind kind, size_t pass, int64_t batch_size, const GpuLanes& lanes);

  PassPrograms& programs_;
  const GpuLaneMemory& memory_;
  std::map<std::shared_ptr<const GpuProgram>, std::unique_ptr<GpuInstance>> instances_;
  // By program, number of lanes, and whether they are listed.
  std::map<std::tuple<const GpuProgram*, int32_t, bool>, Kept> graphs_;
};

}  // namespace rivulet
