#include "client/training/device/gpu_trainer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "client/training/device/gpu_examples.h"
#include "client/training/device/gpu_lane_memory.h"
#include "client/training/device/gpu_lanes.h"
#include "client/training/device/gpu_parts.h"
#include "client/training/device/gpu_passes.h"
#include "client/training/graph_numbers.h"
#include "client/training/kept_state.h"
#include "client/training/lane_result.h"
#include "client/training/pass_programs.h"
#include "client/training/task_inputs.h"
#include "client/training/task_streams.h"
#include "engine/base/check.h"
#include "engine/base/vlog.h"
#include "engine/kernels/cuda/lane_batches.h"
#include "federated/plan/example_source.h"

namespace rivulet {
namespace {

class GpuTrainer final : public Trainer {
 public:
  GpuTrainer(std::shared_ptr<PassPrograms> programs, const TrainingDevice& on)
      : programs_(std::move(programs)),
        plan_(programs_->plan()),
        table_(programs_->buffers()),
        on_(on),
        memory_(*programs_, on.device),
        parts_(plan_, table_, memory_, on.device),
        layout_(plan_),
        kept_(KeptPlacesOf(plan_, table_)) {}

  // Reports missing support before there is a task: the programs of whole batches have all ops of the others.
  Status Initialise() {
    RIVULET_ASSIGN_OR_RETURN(auto decoder, ExampleDecoder::Create(plan_.features()));
    const std::span<const size_t> row_bytes = memory_.row_bytes();
    examples_ = std::make_unique<GpuExamples>(
        std::move(decoder), std::vector<size_t>(row_bytes.begin(), row_bytes.end()), on_.device,
        static_cast<size_t>(on_.kept_examples * static_cast<double>(on_.device->bytes_limit())));
    passes_ = std::make_unique<GpuPasses>(*programs_, memory_, *examples_);
    RIVULET_ASSIGN_OR_RETURN(stream_, on_.device->NewStream());
    parts_.Use(*stream_);
    for (const TaskKind kind : {TaskKind::kTrain, TaskKind::kEvaluate}) {
      const LocalProgram* const program = plan_.program(kind);
      for (size_t i = 0; program != nullptr && i < program->passes.size(); ++i) {
        RIVULET_RETURN_IF_ERROR(passes_->Check(kind, i));
      }
    }
    for (const KeptPlace& place : kept_) kept_buffers_.push_back(place.buffer);
    if (has_numbers()) kept_buffers_.push_back(BufferTable::kScalars);
    brought_.assign(parts_.sent().begin(), parts_.sent().end());
    brought_.insert(brought_.end(), kept_buffers_.begin(), kept_buffers_.end());
    for (std::vector<int>* buffers : {&brought_, &kept_buffers_}) {
      std::ranges::sort(*buffers);
      buffers->erase(std::unique(buffers->begin(), buffers->end()), buffers->end());
    }
    return absl::OkStatus();
  }

  bool LeaveParts(bool leave) override {
    leaves_ = leave && parts_.can_stay();
    has_left_ = has_left_ || leaves_;
    return leaves_;
  }

  void Observe(RunObserver* observer) override { observed_ = observer != nullptr; }

  bool TakesUnlikeTasks() const override { return true; }

  int MostLanes(TaskKind kind, int64_t examples) override {
    if (plan_.program(kind) == nullptr || examples <= 0) return 1;
    const StatusOr<LaneNeeds> needs = AllNeedsOf(kind, examples);
    if (!needs.ok()) return 1;
    const int fit = memory_.MostLanes(*needs, examples_->bytes());
    const int lanes = std::clamp(fit, 1, std::max(on_.most_lanes, 1));
    RIVULET_VLOG(1, "{} lanes of {} examples, each {:.1f} MB of the device; {} would fit", lanes, examples,
                 static_cast<double>(memory_.LaneBytes(*needs)) / 1e6, fit);
    return lanes;
  }

  Status CheckRoom(TaskKind kind, int64_t examples) override {
    if (plan_.program(kind) == nullptr || examples <= 0) return absl::OkStatus();
    RIVULET_ASSIGN_OR_RETURN(const LaneNeeds needs, AllNeedsOf(kind, examples));
    if (memory_.MostLanes(needs, examples_->bytes()) >= 1) return absl::OkStatus();
    return FailedPrecondition(
        "a task of plan '{}' with {} examples takes {:.1f} MB of GPU {}, and {:.1f} are left there", plan_.name(),
        examples, static_cast<double>(memory_.LaneBytes(needs) + memory_.SharedBytes()) / 1e6, on_.device->number(),
        static_cast<double>(memory_.BytesLeft(examples_->bytes())) / 1e6);
  }

  StatusOr<std::vector<LocalResult>> Train(std::span<const LaneTask> lanes, const CancellationToken& cancel) override {
    if (lanes.empty()) return InvalidArgument("a trainer was given no task");
    for (const LaneTask& lane : lanes)
      RIVULET_CHECK(lane.task != nullptr && lane.base != nullptr && lane.examples != nullptr);
    EnterWorkerThread();
    std::vector<LocalResult> results(lanes.size());
    Status status = CheckTogether(lanes);
    if (status.ok()) status = TrainTogether(lanes, cancel, results);
    if (status.ok()) return results;
    if (lanes.size() > 1) return status;
    results[0].status = std::move(status);
    return results;
  }

 private:
  Status CheckTogether(std::span<const LaneTask> lanes) {
    const LaneTask& first = lanes[0];
    if (observed_) {
      return FailedPrecondition("the steps on {} cannot be watched; train on the host to see them (--device cpu)",
                                on_.device->properties().name);
    }
    if (plan_.program(first.task->kind) == nullptr) {
      return InvalidArgument("plan '{}' does not say how to {}", plan_.name(), Name(first.task->kind));
    }
    const auto alike = [&](const LaneTask& lane) {
      return lane.task->kind == first.task->kind && lane.task->base_version == first.task->base_version &&
             lane.base == first.base && std::ranges::equal(lane.broadcasts, first.broadcasts);
    };
    if (!std::ranges::all_of(lanes, alike)) {
      return InvalidArgument("tasks that are not alike cannot be trained at once");
    }
    RIVULET_RETURN_IF_ERROR(layout_.Check(*first.base));
    return CheckBroadcasts(plan_, table_, first.task->kind, first.broadcasts);
  }

  // Buffers with a place on the host: a client's state, before and after, and its update.
  std::span<const int> Brought(TaskKind kind) const {
    return kind == TaskKind::kTrain && !leaves_ ? brought_ : kept_buffers_;
  }

  LaneNeeds NeedsOf(TaskKind kind, int64_t size, int64_t taken) const {
    LaneNeeds needs;
    needs.passes = plan_.program(kind)->passes.size();
    needs.rows = std::min(size, taken);
    needs.order = taken;
    needs.brought = Brought(kind);
    if (kind == TaskKind::kTrain && has_left_) {
      needs.update_bytes = parts_.pipeline().LaneBytes();
      needs.fold_bytes = parts_.FoldBytes();
      needs.fold_lane_bytes = parts_.FoldLaneBytes();
    }
    for (const LocalPass& pass : plan_.program(kind)->passes) {
      needs.feed_rows = std::max(needs.feed_rows, std::min(pass.batch_size, size));
    }
    return needs;
  }

  // For one lane, with the arena of its largest program.
  StatusOr<LaneNeeds> AllNeedsOf(TaskKind kind, int64_t examples) {
    const std::vector<LocalPass>& passes = plan_.program(kind)->passes;
    LaneNeeds needs = NeedsOf(kind, examples, ExamplesTaken(passes, examples));
    for (size_t i = 0; i < passes.size(); ++i) {
      RIVULET_ASSIGN_OR_RETURN(const size_t arena,
                               passes_->ArenaBytes(kind, i, std::min(passes[i].batch_size, examples)));
      needs.arena_bytes = std::max(needs.arena_bytes, arena);
    }
    return needs;
  }

  // The examples that the lane's steps take, each once.
  static GpuShare ShareOf(const GpuLane& lane) {
    GpuShare share{.source = lane.asked->examples};
    if (std::ssize(lane.order) >= lane.size) {
      share.examples.resize(static_cast<size_t>(lane.size));
      std::iota(share.examples.begin(), share.examples.end(), 0u);
    } else {
      share.examples = lane.order;
      std::ranges::sort(share.examples);
      share.examples.erase(std::unique(share.examples.begin(), share.examples.end()), share.examples.end());
    }
    return share;
  }

  // Copies its examples to the device, and its other inputs into the host memory of lane `number`. An error is the
  // task's own.
  Status Read(const GpuLane& lane, GpuShare& share, int number, Scalars& declared) {
    RIVULET_RETURN_IF_ERROR(examples_->Bring(*stream_, share));
    std::vector<uint32_t> row_of(static_cast<size_t>(lane.size));
    for (size_t i = 0; i < share.examples.size(); ++i) row_of[share.examples[i]] = share.rows[i];
    auto* to = reinterpret_cast<uint32_t*>(memory_.HostLane(LaneRegion::kOrder, number));
    for (const uint32_t example : lane.order) *to++ = row_of[example];
    if (has_numbers()) {
      std::memset(memory_.HostBuffer(BufferTable::kScalars, number), 0, table_.bytes(BufferTable::kScalars));
      RIVULET_RETURN_IF_ERROR(NumbersOf(number).Begin(*lane.asked->task, declared));
    }
    if (kept_.empty() && lane.asked->beside.empty()) return absl::OkStatus();
    return BeginState(plan_, *lane.asked->task, *lane.asked->base, lane.asked->state, KeptOf(number),
                      lane.asked->beside);
  }

  // Numbers of tasks, measures of passes and declarations of graphs: the end of a lane's scalars.
  bool has_numbers() const { return table_.bytes(BufferTable::kScalars) > numbers_at(); }
  size_t numbers_at() const { return table_.number(0) * sizeof(double); }
  GraphNumbers NumbersOf(int number) { return {plan_, table_, memory_.HostBuffer(BufferTable::kScalars, number)}; }
  Status BringNumbers(int lanes) {
    const size_t bytes = table_.bytes(BufferTable::kScalars) - numbers_at();
    for (int lane = 0; lane < lanes && bytes > 0; ++lane) {
      RIVULET_RETURN_IF_ERROR(memory_.BringPlace(*stream_, BufferTable::kScalars, lane, numbers_at(), bytes));
    }
    return absl::OkStatus();
  }

  // Sets the measures of pass `pass`, for the graphs that use them. The host divides, as it does for one client.
  Status TellMeasured(std::span<const GpuLane> lanes, const LocalPass& passed, size_t pass) {
    if (plan_.flat_names().measured.empty()) return absl::OkStatus();
    const auto count = static_cast<int>(lanes.size());
    RIVULET_RETURN_IF_ERROR(memory_.FetchSums(*stream_, count));
    RIVULET_RETURN_IF_ERROR(stream_->Wait());
    for (int lane = 0; lane < count; ++lane) {
      Scalars declared;
      DeclarePass(passed, {memory_.HostSums(lane, pass), passed.scalars.size()},
                  lanes[static_cast<size_t>(lane)].seen[pass], declared);
      NumbersOf(lane).Tell(declared);
    }
    return BringMeasured(count);
  }
  // Earlier declarations of graphs are unchanged.
  Status BringMeasured(int lanes) {
    const size_t from = table_.measured(0) * sizeof(double), to = table_.declared(0) * sizeof(double);
    for (int lane = 0; lane < lanes; ++lane) {
      RIVULET_RETURN_IF_ERROR(memory_.BringPlace(*stream_, BufferTable::kScalars, lane, from, to - from));
    }
    return absl::OkStatus();
  }

  std::vector<NamedState> KeptOf(int number) {
    std::vector<NamedState> kept;
    for (const KeptPlace& place : kept_) {
      std::byte* const at = memory_.HostBuffer(place.buffer, number) + place.offset;
      kept.push_back({place.name, {reinterpret_cast<float*>(at), place.bytes / sizeof(float)}});
    }
    return kept;
  }

  Status TrainTogether(std::span<const LaneTask> asked, const CancellationToken& cancel,
                       std::vector<LocalResult>& results) {
    const auto started = std::chrono::steady_clock::now();
    const TaskKind kind = asked[0].task->kind;
    std::vector<GpuLane> candidates = GpuLanesOf(plan_.program(kind)->passes, asked, results), lanes;
    if (candidates.empty()) return absl::OkStatus();
    LaneNeeds needs = NeedsOf(kind, candidates[0].size, 0);
    for (const GpuLane& lane : candidates) {
      needs.order = std::max(needs.order, std::ssize(lane.order));
      needs.rows = std::max(needs.rows, std::min(lane.size, std::ssize(lane.order)));
    }
    LanePlan plan;
    std::vector<GpuShare> shares;
    for (const GpuLane& lane : candidates) shares.push_back(ShareOf(lane));
    RIVULET_RETURN_IF_ERROR(ReserveAll(kind, candidates, shares, needs, plan));
    const auto work = [&]() -> Status {
      for (size_t i = 0; i < candidates.size(); ++i) {
        Status& status = results[candidates[i].request].status;
        status =
            Read(candidates[i], shares[i], static_cast<int>(lanes.size()), results[candidates[i].request].declared);
        if (status.ok()) lanes.push_back(std::move(candidates[i]));
      }
      if (lanes.empty()) return absl::OkStatus();
      if (lanes.size() < candidates.size()) RIVULET_RETURN_IF_ERROR(Reserve(kind, lanes, needs, plan));
      return Enqueue(lanes, plan, cancel);
    };
    const Status status = work();
    // In any case: the stream's operands are in use until it is done.
    const Status ran = stream_->Wait();
    if (!ran.ok()) examples_->Drop();  // they may not have arrived
    RIVULET_RETURN_IF_ERROR(status);
    RIVULET_RETURN_IF_ERROR(ran);
    if (lanes.empty()) return absl::OkStatus();
    for (size_t i = 0; i < lanes.size(); ++i) Tell(lanes[i], static_cast<int>(i), results[lanes[i].request]);
    const std::chrono::duration<double> all = std::chrono::steady_clock::now() - started;
    for (const GpuLane& lane : lanes) {
      results[lane.request].train_seconds = all.count() / static_cast<double>(lanes.size());
      results[lane.request].lanes = std::ssize(lanes);
      results[lane.request].tf32 = on_.device->allows_tf32();
    }
    RIVULET_VLOG(1, "{} clients at once on {} from round {}: up to {} steps, {:.6f} s each", lanes.size(),
                 on_.device->properties().name, asked[0].task->base_version, lanes[0].all_steps(),
                 all.count() / static_cast<double>(lanes.size()));
    return absl::OkStatus();
  }

  // Memory for these lanes and for their examples; other kept examples are dropped. If the memory beside the lanes is
  // too small for the tables, both are allocated anew, the tables first.
  Status ReserveAll(TaskKind kind, std::span<const GpuLane> lanes, std::span<GpuShare> shares, LaneNeeds& needs,
                    LanePlan& plan) {
    Status reserved = Reserve(kind, lanes, needs, plan);
    if (absl::IsResourceExhausted(reserved) && examples_->bytes() > 0) {
      examples_->Drop();
      reserved = Reserve(kind, lanes, needs, plan);
    }
    RIVULET_RETURN_IF_ERROR(reserved);
    StatusOr<bool> moved = examples_->Reserve(*stream_, shares);
    if (absl::IsResourceExhausted(moved.status())) {
      memory_.ReleaseDevice();
      moved = examples_->Reserve(*stream_, shares);
      if (moved.ok()) RIVULET_RETURN_IF_ERROR(Reserve(kind, lanes, needs, plan));
    }
    RIVULET_RETURN_IF_ERROR(moved.status());
    if (*moved) passes_->Forget();
    return absl::OkStatus();
  }

  // Memory for these lanes, on both sides, and their plan.
  Status Reserve(TaskKind kind, std::span<const GpuLane> lanes, LaneNeeds& needs, LanePlan& plan) {
    const auto count = static_cast<int>(lanes.size());
    RIVULET_ASSIGN_OR_RETURN(plan, passes_->PlanFor(kind, lanes));
    needs.arena_bytes = std::max(needs.arena_bytes, plan.arena_bytes);
    needs.ids = std::max(needs.ids, plan.ids.size());
    RIVULET_RETURN_IF_ERROR(memory_.ReserveHost(count, needs));
    RIVULET_RETURN_IF_ERROR(memory_.ReserveHostIds(needs.ids));
    RIVULET_ASSIGN_OR_RETURN(const bool moved, memory_.ReserveDevice(count, needs));
    if (moved) passes_->Forget();
    return leaves_ && kind == TaskKind::kTrain ? parts_.pipeline().ReserveHost(count) : absl::OkStatus();
  }

  Status Enqueue(std::span<const GpuLane> lanes, const LanePlan& plan, const CancellationToken& cancel) {
    const auto count = static_cast<int>(lanes.size());
    const LaneTask& first = *lanes[0].asked;
    const TaskKind kind = first.task->kind;
    auto* const streams = reinterpret_cast<StreamKey*>(memory_.HostShared(SharedRegion::kStreams));
    for (size_t i = 0; i < lanes.size(); ++i) streams[i] = StreamOf(*lanes[i].asked->task, Purpose::kGraph);
    *reinterpret_cast<double*>(memory_.HostShared(SharedRegion::kRound)) =
        static_cast<double>(first.task->base_version);
    std::ranges::copy(plan.ids, memory_.HostIds());
    for (int lane = 0; lane < count; ++lane) {
      auto* const steps = reinterpret_cast<double*>(memory_.HostLane(LaneRegion::kNumbers, lane));
      for (size_t pass = 0; pass < plan.passes.size(); ++pass) {
        steps[pass] = static_cast<double>(plan.passes[pass].steps[static_cast<size_t>(lane)]);
      }
    }
    RIVULET_RETURN_IF_ERROR(
        memory_.Bring(*stream_, count, plan.ids.size(), lanes[0].asked->base->arena(),
                      plan_.reads_broadcasts(kind) ? first.broadcasts : std::span<const AlignedBuffer* const>()));
    RIVULET_RETURN_IF_ERROR(memory_.BringOrders(*stream_, count));
    for (int lane = 0; lane < count; ++lane) {
      for (const KeptPlace& place : kept_) {
        RIVULET_RETURN_IF_ERROR(memory_.BringPlace(*stream_, place.buffer, lane, place.offset, place.bytes));
      }
    }
    RIVULET_RETURN_IF_ERROR(BringNumbers(count));
    for (size_t pass = 0; pass < plan.passes.size(); ++pass) {
      RIVULET_RETURN_IF_ERROR(passes_->EnqueueSteps(*stream_, kind, pass, plan, count, cancel));
      RIVULET_RETURN_IF_ERROR(TellMeasured(lanes, plan_.program(kind)->passes[pass], pass));
      RIVULET_RETURN_IF_ERROR(passes_->EnqueueEnd(*stream_, kind, pass, count));
    }
    if (leaves_ && kind == TaskKind::kTrain) RIVULET_RETURN_IF_ERROR(parts_.pipeline().Send(lanes));
    return memory_.Fetch(*stream_, count, kind == TaskKind::kTrain ? Brought(kind) : std::span<const int>());
  }

  void Tell(const GpuLane& lane, int number, LocalResult& result) {
    const TaskKind kind = lane.asked->task->kind;
    const std::vector<LocalPass>& passes = plan_.program(kind)->passes;
    for (size_t pass = 0; pass < passes.size(); ++pass) {
      const double* const sums = memory_.HostSums(number, pass);
      DeclarePass(passes[pass], {sums, passes[pass].scalars.size()}, lane.seen[pass], result.declared);
    }
    if (has_numbers()) NumbersOf(number).Declare(*lane.asked->task, result.declared);
    CloseResult(lane.size, lane.all_steps(), result);
    if (kind != TaskKind::kTrain) return;
    if (!kept_.empty()) result.state = WriteState(KeptOf(number));
    if (leaves_) parts_.pipeline().TellLeftOut(*lane.asked, number);
    result.parts = leaves_ ? parts_.Left(number) : parts_.Brought(*lane.asked, number, result.declared);
  }

  const std::shared_ptr<PassPrograms> programs_;
  const Plan& plan_;
  const BufferTable& table_;
  const TrainingDevice on_;
  GpuLaneMemory memory_;
  std::unique_ptr<GpuExamples> examples_;
  std::unique_ptr<GpuPasses> passes_;
  GpuParts parts_;
  KnownLayout layout_;
  const std::vector<KeptPlace> kept_;
  std::vector<int> brought_, kept_buffers_;  // what training copies to the host; the same with parts on the device
  bool leaves_ = false, has_left_ = false;   // now; ever
  bool observed_ = false;
  std::unique_ptr<GpuStream> stream_;  // destroyed first
};

}  // namespace

StatusOr<std::unique_ptr<Trainer>> NewGpuTrainer(std::shared_ptr<PassPrograms> programs, const TrainingDevice& on) {
  RIVULET_CHECK(on.device != nullptr);
  EnterWorkerThread();
  auto trainer = std::make_unique<GpuTrainer>(std::move(programs), on);
  RIVULET_RETURN_IF_ERROR(trainer->Initialise());
  return std::unique_ptr<Trainer>(std::move(trainer));
}

Status CheckTraining(const std::shared_ptr<const Plan>& plan, const TrainingDevice& on) {
  return NewGpuTrainer(std::make_shared<PassPrograms>(plan), on).status();
}

}  // namespace rivulet
