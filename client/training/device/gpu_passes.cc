#include "client/training/device/gpu_passes.h"

#include <algorithm>
#include <utility>

#include "engine/kernels/cuda/lane_batches.h"

namespace rivulet {
namespace {

constexpr size_t kWord = sizeof(uint32_t);

// Distinct lists of lanes, in the order of use: epochs of the same groups are then the same work.
class ListedLanes {
 public:
  explicit ListedLanes(std::vector<int32_t>& ids) : ids_(ids) {}
  LaneList Of(const std::vector<int32_t>& lanes) {
    LaneList list{static_cast<int32_t>(lanes.size()), -1};
    if (lanes.empty() || lanes.back() + 1 == list.count) return list;
    const auto [found, is_new] = known_.try_emplace(lanes, std::ssize(ids_));
    if (is_new) ids_.insert(ids_.end(), lanes.begin(), lanes.end());
    list.at = found->second;
    return list;
  }

 private:
  std::vector<int32_t>& ids_;
  std::map<std::vector<int32_t>, int64_t> known_;
};

gpu::Lanes OnDevice(const GpuLanes& lanes) { return {lanes.count, lanes.ids}; }

}  // namespace

int64_t LanePlan::Epoch::steps() const {
  int64_t steps = 0;
  for (const Group& group : groups) steps += group.times;
  return steps;
}

void GpuPasses::Forget() {
  steps_.clear();
  epochs_.clear();
}

const LocalPass& GpuPasses::PassOf(TaskKind kind, size_t pass) const {
  return programs_.plan().program(kind)->passes[pass];
}

Status GpuPasses::Check(TaskKind kind, size_t pass) {
  const LocalPass& local = PassOf(kind, pass);
  if (local.input != nullptr) {
    return Unimplemented("plan '{}' has an input graph, which only the host runs; train it there",
                         programs_.plan().name());
  }
  if (local.scalars.size() > gpu::kMostCounted) {
    return Unimplemented("plan '{}' has a pass that reports {} numbers, and a device supports up to {}",
                         programs_.plan().name(), local.scalars.size(), gpu::kMostCounted);
  }
  return ArenaBytes(kind, pass, local.batch_size).status();
}

StatusOr<size_t> GpuPasses::ArenaBytes(TaskKind kind, size_t pass, int64_t batch_size) {
  RIVULET_ASSIGN_OR_RETURN(const auto begin, programs_.GpuBegin(kind, pass));
  RIVULET_ASSIGN_OR_RETURN(const auto step, programs_.GpuStep(kind, pass, batch_size));
  RIVULET_ASSIGN_OR_RETURN(const auto end, programs_.GpuEnd(kind, pass));
  size_t bytes = 0;
  for (const auto& program : {begin, step, end}) {
    if (program != nullptr) bytes = std::max(bytes, program->arena_bytes());
  }
  return bytes;
}

StatusOr<LanePlan> GpuPasses::PlanFor(TaskKind kind, std::span<const GpuLane> lanes) {
  ++plans_;
  LanePlan plan;
  ListedLanes listed(plan.ids);
  for (size_t pass = 0; pass < programs_.plan().program(kind)->passes.size(); ++pass) {
    const LocalPass& local = PassOf(kind, pass);
    LanePlan::Pass& planned = plan.passes.emplace_back();
    std::vector<LaneWork> work;
    for (const GpuLane& lane : lanes) {
      planned.steps.push_back(lane.steps[pass]);
      work.push_back({lane.size, lane.steps[pass]});
    }
    for (;;) {
      std::vector<int32_t> beginners;
      for (size_t i = 0; i < work.size(); ++i) {
        if (work[i].steps_left > 0) beginners.push_back(static_cast<int32_t>(i));
      }
      const std::vector<LaneGroup> groups = NextEpoch(work, local.batch_size);
      if (groups.empty()) break;
      LanePlan::Epoch& epoch = planned.epochs.emplace_back();
      epoch.beginners = listed.Of(beginners);
      for (const LaneGroup& group : groups) {
        RIVULET_ASSIGN_OR_RETURN(const size_t arena, ArenaBytes(kind, pass, group.batch_size));
        plan.arena_bytes = std::max(plan.arena_bytes, arena);
        epoch.groups.push_back({group.batch_size, group.times, listed.Of(group.lanes)});
      }
    }
  }
  return plan;
}

GpuLanes GpuPasses::LanesOf(const LaneList& list) const {
  if (list.at < 0) return {list.count, nullptr};
  return {list.count, reinterpret_cast<const int32_t*>(memory_.Shared(SharedRegion::kIds)) + list.at};
}

GpuBindings GpuPasses::Bindings(const GpuLanes& lanes) const {
  GpuBindings bindings;
  bindings.arena = memory_.Lane(LaneRegion::kArena);
  bindings.buffers = memory_.buffers();
  bindings.lanes = lanes;
  bindings.draws = {reinterpret_cast<const StreamKey*>(memory_.Shared(SharedRegion::kStreams)),
                    reinterpret_cast<const uint64_t*>(memory_.Shared(SharedRegion::kSteps))};
  return bindings;
}

StatusOr<GpuInstance*> GpuPasses::InstanceOf(GpuStream& stream, const std::shared_ptr<const GpuProgram>& program) {
  std::unique_ptr<GpuInstance>& instance = instances_[program];
  if (instance == nullptr) {
    RIVULET_ASSIGN_OR_RETURN(instance, program->Instantiate(stream.device()));
  }
  return instance.get();
}

Status GpuPasses::RunWhole(GpuStream& stream, const std::shared_ptr<const GpuProgram>& program, const GpuLanes& lanes) {
  RIVULET_ASSIGN_OR_RETURN(GpuInstance* const instance, InstanceOf(stream, program));
  return instance->Enqueue(stream, Bindings(lanes));
}

Status GpuPasses::EnqueueSteps(GpuStream& stream, TaskKind kind, size_t pass, const LanePlan& plan, int lanes,
                               const CancellationToken& cancel) {
  RIVULET_ASSIGN_OR_RETURN(const auto begin, programs_.GpuBegin(kind, pass));
  if (begin != nullptr) RIVULET_RETURN_IF_ERROR(RunWhole(stream, begin, {lanes, nullptr}));
  for (const LanePlan::Epoch& epoch : plan.passes[pass].epochs) {
    if (cancel.cancelled()) return Cancelled("training was cancelled");
    RIVULET_RETURN_IF_ERROR(RunEpoch(stream, kind, pass, epoch, cancel));
  }
  return absl::OkStatus();
}

Status GpuPasses::EnqueueEnd(GpuStream& stream, TaskKind kind, size_t pass, int lanes) {
  const GpuLanes all = {lanes, nullptr};
  RIVULET_ASSIGN_OR_RETURN(const auto end, programs_.GpuEnd(kind, pass));
  if (end == nullptr) return absl::OkStatus();
  RIVULET_RETURN_IF_ERROR(stream.Launch(
      "fill_words",
      gpu::FillWordsArguments{
          SpanOf<uint32_t>(memory_.buffers()[BufferTable::kScalars], BufferTable::kSteps * sizeof(double)),
          SpanOf<const uint32_t>(memory_.Lane(LaneRegion::kNumbers), pass * sizeof(double)), sizeof(double) / kWord, 0,
          OnDevice(all)}));
  return RunWhole(stream, end, all);
}

// A client's results are those of its last epoch.
Status GpuPasses::ClearSums(GpuStream& stream, size_t pass, const LanePlan::Epoch& epoch) {
  return stream.Launch("fill_words", gpu::FillWordsArguments{SpanOf<uint32_t>(memory_.Sums(pass)),
                                                             {},
                                                             gpu::kMostCounted * sizeof(double) / kWord,
                                                             0,
                                                             OnDevice(LanesOf(epoch.beginners))});
}

template <typename Key>
StatusOr<GpuPasses::Kept*> GpuPasses::KeptOf(GpuStream& stream, std::map<Key, Kept>& graphs, const Key& key) {
  if (!graphs.contains(key) && graphs.size() >= kMostGraphs) {
    RIVULET_RETURN_IF_ERROR(stream.Wait());
    graphs.clear();
  }
  return &graphs[key];
}

template <typename Work>
Status GpuPasses::RunAsGraph(GpuStream& stream, Kept& kept, const Work& work) {
  if (kept.graph == nullptr) {
    RIVULET_RETURN_IF_ERROR(stream.BeginCapture());
    const Status captured = work();
    StatusOr<std::unique_ptr<GpuGraph>> graph = stream.EndCapture();
    RIVULET_RETURN_IF_ERROR(captured);
    RIVULET_ASSIGN_OR_RETURN(kept.graph, std::move(graph));
  }
  return stream.Launch(*kept.graph);
}

// A graph of all its steps is worth its cost if other tasks have the same epoch. Clients of different sizes make ever
// new ones, and those run step by step.
Status GpuPasses::RunEpoch(GpuStream& stream, TaskKind kind, size_t pass, const LanePlan::Epoch& epoch,
                           const CancellationToken& cancel) {
  if (epoch.steps() > kMostStepsOfAGraph) return StepByStep(stream, kind, pass, epoch, cancel);
  RIVULET_ASSIGN_OR_RETURN(Kept* const kept, KeptOf(stream, epochs_, EpochKey(kind, pass, epoch)));
  if (kept->first_plan == 0) kept->first_plan = plans_;
  if (kept->first_plan == plans_) return StepByStep(stream, kind, pass, epoch, cancel);
  for (const LanePlan::Group& group : epoch.groups) {
    RIVULET_ASSIGN_OR_RETURN(const auto program, programs_.GpuStep(kind, pass, group.batch_size));
    RIVULET_RETURN_IF_ERROR(InstanceOf(stream, program).status());  // a capture may not allocate
  }
  return RunAsGraph(stream, *kept, [&] { return Epoch(stream, kind, pass, epoch); });
}

Status GpuPasses::Epoch(GpuStream& stream, TaskKind kind, size_t pass, const LanePlan::Epoch& epoch) {
  RIVULET_RETURN_IF_ERROR(ClearSums(stream, pass, epoch));
  for (const LanePlan::Group& group : epoch.groups) {
    for (int64_t i = 0; i < group.times; ++i) {
      RIVULET_RETURN_IF_ERROR(Step(stream, kind, pass, group.batch_size, LanesOf(group.lanes)));
    }
  }
  return absl::OkStatus();
}

Status GpuPasses::StepByStep(GpuStream& stream, TaskKind kind, size_t pass, const LanePlan::Epoch& epoch,
                             const CancellationToken& cancel) {
  RIVULET_RETURN_IF_ERROR(ClearSums(stream, pass, epoch));
  for (const LanePlan::Group& group : epoch.groups) {
    RIVULET_RETURN_IF_ERROR(RunGroup(stream, kind, pass, group, cancel));
  }
  return absl::OkStatus();
}

// A graph contains the address of its list, so all lists are run from one place.
Status GpuPasses::RunGroup(GpuStream& stream, TaskKind kind, size_t pass, const LanePlan::Group& group,
                           const CancellationToken& cancel) {
  RIVULET_ASSIGN_OR_RETURN(const auto program, programs_.GpuStep(kind, pass, group.batch_size));
  GpuLanes lanes = LanesOf(group.lanes);
  if (lanes.ids != nullptr) {
    std::byte* const listed = memory_.Shared(SharedRegion::kListed);
    RIVULET_RETURN_IF_ERROR(stream.OnDevice(listed, lanes.ids, static_cast<size_t>(lanes.count) * sizeof(int32_t)));
    lanes.ids = reinterpret_cast<const int32_t*>(listed);
  }
  RIVULET_RETURN_IF_ERROR(InstanceOf(stream, program).status());  // a capture may not allocate
  RIVULET_ASSIGN_OR_RETURN(Kept* const kept,
                           KeptOf(stream, steps_, StepKey(program.get(), lanes.count, lanes.ids != nullptr)));
  const auto step = [&] { return Step(stream, kind, pass, group.batch_size, lanes); };
  for (int64_t i = 0; i < group.times; ++i) {
    if (cancel.cancelled()) return Cancelled("training was cancelled");
    if (std::exchange(kept->first_plan, plans_) == 0) {
      RIVULET_RETURN_IF_ERROR(step());
    } else {
      RIVULET_RETURN_IF_ERROR(RunAsGraph(stream, *kept, step));
    }
  }
  return absl::OkStatus();
}

Status GpuPasses::Step(GpuStream& stream, TaskKind kind, size_t pass, int64_t batch_size, const GpuLanes& lanes) {
  const LocalPass& local = PassOf(kind, pass);
  RIVULET_ASSIGN_OR_RETURN(const auto program, programs_.GpuStep(kind, pass, batch_size));
  GpuBindings bindings = Bindings(lanes);
  std::vector<GpuOperand> feeds, fetches;
  for (size_t i = 0; i < memory_.features(); ++i) {
    feeds.push_back(memory_.Feed(i));
    RIVULET_RETURN_IF_ERROR(stream.Launch(
        "gather_rows", gpu::GatherRowsArguments{{reinterpret_cast<const uint32_t*>(examples_.table(i)), 0},
                                                SpanOf<const uint32_t>(memory_.Lane(LaneRegion::kOrder)),
                                                SpanOf<const gpu::LaneProgress>(memory_.Lane(LaneRegion::kProgress)),
                                                SpanOf<uint32_t>(feeds[i]),
                                                batch_size,
                                                static_cast<int64_t>(memory_.row_bytes()[i] / kWord),
                                                OnDevice(lanes)}));
  }
  const GpuOperand values = memory_.Lane(LaneRegion::kValues);
  uint64_t plain = 0;
  for (size_t i = 0; i < local.scalars.size(); ++i) {
    fetches.push_back({values.data + i * GpuLaneMemory::kValueBytes, values.lane_stride});
    if (local.scalars[i].sum) plain |= uint64_t{1} << i;
  }
  bindings.feeds = feeds;
  bindings.fetches = fetches;
  RIVULET_ASSIGN_OR_RETURN(GpuInstance* const instance, InstanceOf(stream, program));
  RIVULET_RETURN_IF_ERROR(instance->Enqueue(stream, bindings));
  return stream.Launch(
      "count_step", gpu::CountStepArguments{SpanOf<const float>(values), GpuLaneMemory::kValueBytes / sizeof(float),
                                            SpanOf<double>(memory_.Sums(pass)),
                                            SpanOf<gpu::LaneProgress>(memory_.Lane(LaneRegion::kProgress)),
                                            reinterpret_cast<uint64_t*>(memory_.Shared(SharedRegion::kSteps)), plain,
                                            batch_size, static_cast<int32_t>(local.scalars.size()), OnDevice(lanes)});
}

}  // namespace rivulet
