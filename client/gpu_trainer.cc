#include "client/gpu_trainer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "client/gpu_fold.h"
#include "client/gpu_lane_memory.h"
#include "client/gpu_passes.h"
#include "client/kept_state.h"
#include "client/part_places.h"
#include "client/pass_programs.h"
#include "client/task_inputs.h"
#include "client/task_streams.h"
#include "engine/base/check.h"
#include "engine/base/vlog.h"
#include "engine/kernels/cuda/lane_batches.h"
#include "federated/plan/example_source.h"

namespace rivulet {
namespace {

using Clock = std::chrono::steady_clock;

// A task that is being trained, or will be if its data can be read.
struct Lane {
  size_t request = 0;  // which of those that were asked for
  const LaneTask* asked = nullptr;
  int64_t size = 0;
  std::vector<uint32_t> order;  // of the examples that its steps take, over all passes
  std::vector<int64_t> seen;    // examples of the last epoch, by pass
  uint64_t steps = 0;
};

class GpuTrainer final : public Trainer {
  // A part of the last results, folded where it lies.
  class LanePart final : public HeldPart {
   public:
    LanePart(GpuTrainer& trainer, const PartPlaces& part) : trainer_(trainer), part_(part) {}
    int64_t elements() const override {
      int64_t elements = 0;
      for (const RunPlace& place : part_.places) elements += place.count;
      return elements;
    }
    StatusOr<std::vector<Folded>> Fold(std::span<const int32_t> updates, std::span<const double> scales, int value_bits,
                                       int sign, std::span<int64_t> sums, std::span<FoldState> states) const override {
      return trainer_.fold_.Fold(*trainer_.stream_, Runs(), updates, scales, value_bits, sign, sums, states);
    }
    StatusOr<std::vector<Folded>> Fold(std::span<const int32_t> updates, std::span<const double> scales, int value_bits,
                                       int sign, std::span<int32_t> sums, std::span<FoldState> states) const override {
      return trainer_.fold_.Fold(*trainer_.stream_, Runs(), updates, scales, value_bits, sign, sums, states);
    }

   private:
    std::vector<GpuRun> Runs() const {
      std::vector<GpuRun> runs;
      const std::span<const GpuOperand> buffers = trainer_.memory_.buffers();
      for (const RunPlace& place : part_.places) {
        GpuOperand values = buffers[static_cast<size_t>(place.from)];
        values.data += place.offset;
        const std::byte* const minus =
            place.less < 0 ? nullptr : buffers[static_cast<size_t>(place.less)].data + place.offset;
        runs.push_back({values, minus, place.count});
      }
      return runs;
    }
    GpuTrainer& trainer_;
    const PartPlaces& part_;
  };

 public:
  GpuTrainer(std::shared_ptr<PassPrograms> programs, const TrainingDevice& on)
      : programs_(std::move(programs)),
        plan_(programs_->plan()),
        table_(programs_->buffers()),
        on_(on),
        memory_(*programs_, on.device),
        fold_(on.device),
        passes_(*programs_, memory_),
        layout_(plan_),
        parts_(PartPlacesOf(plan_, table_)),
        kept_(KeptPlacesOf(plan_, table_)) {}

  // What the device cannot do is told before there is a task: the programs of whole batches have all ops of the others.
  Status Initialise() {
    RIVULET_ASSIGN_OR_RETURN(decoder_, ExampleDecoder::Create(plan_.features()));
    RIVULET_ASSIGN_OR_RETURN(stream_, on_.device->NewStream());
    for (const TaskKind kind : {TaskKind::kTrain, TaskKind::kEvaluate}) {
      const LocalProgram* const program = plan_.program(kind);
      for (size_t i = 0; program != nullptr && i < program->passes.size(); ++i) {
        RIVULET_RETURN_IF_ERROR(passes_.Check(kind, i));
      }
    }
    for (const PartPlaces& part : parts_) {
      held_.push_back(std::make_unique<LanePart>(*this, part));
      for (const RunPlace& place : part.places) {
        // What all values are differences to must be the same for all lanes, to be folded on the device.
        can_hold_ = can_hold_ && (place.less < 0 || table_.borrowed(place.less));
        for (const int buffer : {place.from, place.less}) {
          if (buffer >= 0 && !table_.borrowed(buffer)) sent_.push_back(buffer);
        }
      }
    }
    for (const KeptPlace& place : kept_) kept_buffers_.push_back(place.buffer);
    sent_.insert(sent_.end(), kept_buffers_.begin(), kept_buffers_.end());
    for (std::vector<int>* buffers : {&sent_, &kept_buffers_}) {
      std::ranges::sort(*buffers);
      buffers->erase(std::unique(buffers->begin(), buffers->end()), buffers->end());
    }
    return absl::OkStatus();
  }

  void LeaveParts(bool leave) override { leaves_ = leave && can_hold_; }

  void Observe(RunObserver* observer) override { observed_ = observer != nullptr; }

  bool TakesUnlikeTasks() const override { return true; }

  int MostLanes(TaskKind kind, int64_t examples) override {
    const LocalProgram* const program = plan_.program(kind);
    if (program == nullptr || examples <= 0) return 1;
    LaneNeeds needs = NeedsOf(kind, examples, ExamplesTaken(program->passes, examples));
    for (size_t i = 0; i < program->passes.size(); ++i) {
      const auto arena = passes_.ArenaBytes(kind, i, std::min(program->passes[i].batch_size, examples));
      if (!arena.ok()) return 1;
      needs.arena_bytes = std::max(needs.arena_bytes, *arena);
    }
    const int fit = memory_.MostLanes(needs);
    const int lanes = std::clamp(fit, 1, std::max(on_.most_lanes, 1));
    RIVULET_VLOG(1, "{} lanes of {} examples, each {:.1f} MB of the device; {} would fit", lanes, examples,
                 static_cast<double>(memory_.LaneBytes(needs)) / 1e6, fit);
    return lanes;
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

  // Buffers that have a place on the host: what a client keeps, as it begins with it, and what it sends.
  std::span<const int> Brought(TaskKind kind) const {
    return kind == TaskKind::kTrain && !leaves_ ? sent_ : kept_buffers_;
  }

  static int64_t ExamplesTaken(std::span<const LocalPass> passes, int64_t size) {
    int64_t taken = 0;
    for (const LocalPass& pass : passes) {
      const int64_t batch = std::min(pass.batch_size, size), of_epoch = (size + batch - 1) / batch;
      const int64_t steps = StepsOf(pass, size);
      taken += steps / of_epoch * size + std::min(steps % of_epoch * batch, size);
    }
    return taken;
  }

  LaneNeeds NeedsOf(TaskKind kind, int64_t size, int64_t taken) const {
    LaneNeeds needs;
    needs.passes = plan_.program(kind)->passes.size();
    needs.rows = std::min(size, taken);
    needs.order = taken;
    needs.brought = Brought(kind);
    for (const LocalPass& pass : plan_.program(kind)->passes) {
      needs.feed_rows = std::max(needs.feed_rows, std::min(pass.batch_size, size));
    }
    return needs;
  }

  // In which order a task takes its examples, over all passes: as its client would by itself.
  static void FollowSteps(std::span<const LocalPass> passes, Lane& lane) {
    uint64_t epoch = 0;
    std::vector<uint32_t> shuffled;
    for (const LocalPass& pass : passes) {
      const int64_t batch = std::min(pass.batch_size, lane.size), of_epoch = (lane.size + batch - 1) / batch;
      int64_t seen = 0;
      for (int64_t left = StepsOf(pass, lane.size); left > 0; left -= of_epoch, ++epoch) {
        OrderInto(shuffled, *lane.asked->task, epoch, lane.size, pass.shuffle);
        seen = std::min(left * batch, lane.size);
        lane.order.insert(lane.order.end(), shuffled.begin(), shuffled.begin() + seen);
      }
      lane.seen.push_back(seen);
      lane.steps += static_cast<uint64_t>(StepsOf(pass, lane.size));
    }
  }

  // Largest first: so those who step together are the first so and so many, as far as whole batches go.
  std::vector<Lane> LanesOf(std::span<const LaneTask> asked, std::vector<LocalResult>& results) const {
    const TaskKind kind = asked[0].task->kind;
    std::vector<Lane> lanes;
    for (size_t i = 0; i < asked.size(); ++i) {
      const int64_t size = asked[i].examples->size();
      if (size <= 0) {
        results[i].status = FailedPrecondition("client '{}' has no examples to {} on", asked[i].client_id, Name(kind));
      } else if (size > UINT32_MAX) {
        results[i].status = InvalidArgument("client '{}' has {} examples, beyond 2^32 - 1", asked[i].client_id, size);
      } else {
        lanes.push_back({.request = i, .asked = &asked[i], .size = size});
      }
    }
    std::ranges::stable_sort(lanes, std::greater<>(), &Lane::size);
    for (Lane& lane : lanes) FollowSteps(plan_.program(kind)->passes, lane);
    return lanes;
  }

  // Into the host's memory of lane `number`; an error is the task's own.
  Status Read(Lane& lane, int number) {
    const bool all = std::ssize(lane.order) >= lane.size;
    const auto rows = all ? static_cast<size_t>(lane.size) : lane.order.size();
    std::vector<uint32_t> wanted(rows);
    if (all) {
      std::iota(wanted.begin(), wanted.end(), 0u);
    } else {
      std::swap(wanted, lane.order);
      lane.order.resize(rows);
      std::iota(lane.order.begin(), lane.order.end(), 0u);
    }
    std::vector<TensorView> views;
    for (const FeedSpec& feed : decoder_->FeedSpecs(static_cast<int64_t>(rows))) {
      views.push_back({memory_.HostExamples(views.size(), number), feed.spec.dtype, feed.spec.shape});
    }
    RIVULET_RETURN_IF_ERROR(lane.asked->examples->Decode(wanted, views));
    std::memcpy(memory_.HostLane(LaneRegion::kOrder, number), lane.order.data(), lane.order.size() * sizeof(uint32_t));
    if (kept_.empty() && lane.asked->beside.empty()) return absl::OkStatus();
    return BeginState(plan_, *lane.asked->task, *lane.asked->base, lane.asked->state, KeptOf(number),
                      lane.asked->beside);
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
    const Clock::time_point started = Clock::now();
    const TaskKind kind = asked[0].task->kind;
    std::vector<Lane> candidates = LanesOf(asked, results), lanes;
    if (candidates.empty()) return absl::OkStatus();
    LaneNeeds needs = NeedsOf(kind, candidates[0].size, 0);
    for (const Lane& lane : candidates) {
      needs.order = std::max(needs.order, std::ssize(lane.order));
      needs.rows = std::max(needs.rows, std::min(lane.size, std::ssize(lane.order)));
    }
    RIVULET_RETURN_IF_ERROR(memory_.ReserveHost(static_cast<int>(candidates.size()), needs));
    for (Lane& lane : candidates) {
      Status& status = results[lane.request].status;
      status = Read(lane, static_cast<int>(lanes.size()));
      if (status.ok()) lanes.push_back(std::move(lane));
    }
    if (lanes.empty()) return absl::OkStatus();

    std::vector<int64_t> sizes;
    for (const Lane& lane : lanes) sizes.push_back(lane.size);
    RIVULET_ASSIGN_OR_RETURN(const LanePlan plan, passes_.PlanFor(kind, sizes));
    needs.arena_bytes = plan.arena_bytes;
    needs.ids = plan.ids.size();
    RIVULET_RETURN_IF_ERROR(memory_.ReserveHostIds(needs.ids));
    RIVULET_ASSIGN_OR_RETURN(const bool moved, memory_.ReserveDevice(static_cast<int>(lanes.size()), needs));
    if (moved) passes_.Forget();
    Status status = Enqueue(lanes, plan, cancel);
    // Whatever happened: what was named to the stream is in use until it is through.
    if (Status ran = stream_->Wait(); status.ok()) status = std::move(ran);
    RIVULET_RETURN_IF_ERROR(status);
    for (size_t i = 0; i < lanes.size(); ++i) Tell(lanes[i], static_cast<int>(i), results[lanes[i].request]);
    const std::chrono::duration<double> all = Clock::now() - started;
    for (const Lane& lane : lanes) {
      results[lane.request].train_seconds = all.count() / static_cast<double>(lanes.size());
    }
    RIVULET_VLOG(1, "{} clients at once on {} from round {}: up to {} steps, {:.6f} s each", lanes.size(),
                 on_.device->properties().name, asked[0].task->base_version, lanes[0].steps,
                 all.count() / static_cast<double>(lanes.size()));
    return absl::OkStatus();
  }

  Status Enqueue(std::span<const Lane> lanes, const LanePlan& plan, const CancellationToken& cancel) {
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
                      kind == TaskKind::kTrain ? first.broadcasts : std::span<const AlignedBuffer* const>()));
    for (int lane = 0; lane < count; ++lane) {
      const Lane& of = lanes[static_cast<size_t>(lane)];
      const int64_t rows = std::min(of.size, std::ssize(of.order));
      RIVULET_RETURN_IF_ERROR(memory_.BringExamples(*stream_, lane, rows, std::ssize(of.order)));
      for (const KeptPlace& place : kept_) {
        RIVULET_RETURN_IF_ERROR(memory_.BringPlace(*stream_, place.buffer, lane, place.offset, place.bytes));
      }
    }
    for (size_t pass = 0; pass < plan.passes.size(); ++pass) {
      RIVULET_RETURN_IF_ERROR(passes_.Enqueue(*stream_, kind, pass, plan, count, cancel));
    }
    return memory_.Fetch(*stream_, count, kind == TaskKind::kTrain ? Brought(kind) : std::span<const int>());
  }

  void Tell(const Lane& lane, int number, LocalResult& result) {
    const TaskKind kind = lane.asked->task->kind;
    const std::vector<LocalPass>& passes = plan_.program(kind)->passes;
    for (size_t pass = 0; pass < passes.size(); ++pass) {
      const double* const sums = memory_.HostSums(number, pass);
      for (size_t i = 0; i < passes[pass].scalars.size(); ++i) {
        const PassScalar& scalar = passes[pass].scalars[i];
        result.declared[scalar.name] = scalar.sum ? sums[i] : sums[i] / static_cast<double>(lane.seen[pass]);
      }
    }
    result.examples = lane.size;
    result.steps = static_cast<int64_t>(lane.steps);
    if (const auto loss = result.declared.find("train_loss"); loss != result.declared.end())
      result.train_loss = loss->second;
    result.declared["examples"] = static_cast<double>(lane.size);
    result.declared["steps"] = static_cast<double>(lane.steps);
    if (kind != TaskKind::kTrain) return;
    if (!kept_.empty()) result.state = WriteState(KeptOf(number));
    if (leaves_) {
      for (size_t part = 0; part < parts_.size(); ++part) {
        result.parts.push_back({.name = parts_[part].name, .held = held_[part].get(), .number = number});
      }
      return;
    }
    if (runs_.size() <= static_cast<size_t>(number)) runs_.resize(static_cast<size_t>(number) + 1);
    std::vector<std::vector<FloatRun>>& runs = runs_[static_cast<size_t>(number)];
    runs.resize(parts_.size());
    const auto at = [&](int buffer, size_t offset) -> const float* {
      if (buffer < 0) return nullptr;
      const std::byte* const memory =
          buffer == BufferTable::kBaseParams ? lane.asked->base->arena().data()
          : table_.borrowed(buffer) ? lane.asked->broadcasts[static_cast<size_t>(buffer - table_.broadcast(0))]->data()
                                    : memory_.HostBuffer(buffer, number);
      return reinterpret_cast<const float*>(memory + offset);
    };
    for (size_t part = 0; part < parts_.size(); ++part) {
      runs[part].clear();
      for (const RunPlace& place : parts_[part].places) {
        runs[part].push_back({at(place.from, place.offset), at(place.less, place.offset), place.count});
      }
      result.parts.push_back({.name = parts_[part].name, .runs = runs[part]});
    }
  }

  const std::shared_ptr<PassPrograms> programs_;
  const Plan& plan_;
  const BufferTable& table_;
  const TrainingDevice on_;
  GpuLaneMemory memory_;
  GpuFold fold_;
  GpuPasses passes_;
  KnownLayout layout_;
  const std::vector<PartPlaces> parts_;
  const std::vector<KeptPlace> kept_;
  std::vector<std::unique_ptr<const LanePart>> held_;  // by part
  std::vector<int> sent_, kept_buffers_;  // what a training brings to the host; where its parts stay on the device
  bool can_hold_ = true, leaves_ = false;
  std::shared_ptr<const ExampleDecoder> decoder_;
  bool observed_ = false;
  std::vector<std::vector<std::vector<FloatRun>>> runs_;  // of the last results, by lane and part
  std::unique_ptr<GpuStream> stream_;                     // goes first
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
