#include "client/training/trainer.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "client/training/bound_passes.h"
#include "client/training/example_steps.h"
#include "client/training/graph_numbers.h"
#include "client/training/host_lanes.h"
#include "client/training/kept_state.h"
#include "client/training/lane_result.h"
#include "client/training/lane_run.h"
#include "client/training/part_places.h"
#include "client/training/pass_programs.h"
#include "client/training/pass_steps.h"
#include "client/training/task_inputs.h"
#include "client/training/task_streams.h"
#include "engine/base/check.h"
#include "engine/base/vlog.h"
#include "engine/profile/step_monitor.h"

namespace rivulet {
namespace {

// Smaller memory is kept: the system would clear its pages for every task, and the process would hardly shrink.
constexpr size_t kWorthReleasing = size_t{64} << 20;

// The pages are zero when they are next written, like those of a new buffer.
void Release(AlignedBuffer& memory) {
  constexpr uintptr_t kPage = 4096;
  if (memory.size() < kWorthReleasing) return;
  const auto begin = reinterpret_cast<uintptr_t>(memory.data());
  const uintptr_t from = (begin + kPage - 1) / kPage * kPage, to = (begin + memory.size()) / kPage * kPage;
  madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);
}

// A part, with its place after the last task.
struct PartRuns : PartPlaces {
  std::vector<FloatRun> runs;
};

// A task's memory is allocated by size and kept: shared memory of programs (BoundPasses), and one buffer per flat
// variable. Programs have offsets only, so binding them to other memory, such as the next base model, costs a
// pointer.
class LocalTrainer : public Trainer {
 public:
  LocalTrainer(std::shared_ptr<PassPrograms> programs, StepMonitor* monitor, LoopBudget loops)
      : programs_(std::move(programs)),
        plan_(programs_->plan()),
        table_(programs_->buffers()),
        monitor_(monitor),
        passes_(*programs_),
        steps_(plan_, passes_, monitor, loops),
        example_steps_(plan_, passes_, steps_),
        layout_(plan_),
        host_lanes_(*programs_) {}

  Status Initialise() {
    for (int i = 0; i < table_.size(); ++i) {
      // The base model is bound to the memory of the model that all trainers share.
      RIVULET_ASSIGN_OR_RETURN(AlignedBuffer memory, AlignedBuffer::Create(table_.borrowed(i) ? 0 : table_.bytes(i)));
      memory_.push_back(std::move(memory));
      buffers_.push_back({memory_.back().data(), DType::kFloat32, 0});
    }
    for (const KeptPlace& place : KeptPlacesOf(plan_, table_)) {
      std::byte* const at = memory_[Index(place.buffer)].data() + place.offset;
      kept_.push_back({place.name, {reinterpret_cast<float*>(at), place.bytes / sizeof(float)}});
    }
    for (PartPlaces& part : PartPlacesOf(plan_, table_)) {
      const size_t runs = part.places.size();
      parts_.push_back({std::move(part), std::vector<FloatRun>(runs)});
    }
    return passes_.Initialise();
  }

  void Observe(RunObserver* observer) override { observer_ = observer; }

  void ReleaseSteps() override {
    for (const PartRuns& part : parts_) {
      const auto is_gradient = [](const RunPlace& place) {
        return place.from == BufferTable::kGrads || place.less == BufferTable::kGrads;
      };
      if (std::ranges::any_of(part.places, is_gradient)) return;
    }
    Release(memory_[BufferTable::kGrads]);
  }
  void ReleaseResults() override {
    Release(memory_[BufferTable::kGrads]);
    Release(memory_[BufferTable::kParams]);
  }

  // An observer of steps sees each client's.
  int MostLanes(TaskKind kind, int64_t examples) override {
    if (monitor_ != nullptr && monitor_->MayRecord()) return 1;
    if (!plan_.flat_names().declared.empty()) return 1;  // lanes share the buffer that graphs declare in
    const BoundPass* const pass = SharedPass(kind, examples);
    const LaneStep* const step = pass == nullptr ? nullptr : host_lanes_.For(*pass, examples);
    return step == nullptr ? 1 : step->most();
  }

  StatusOr<std::vector<LocalResult>> Train(std::span<const LaneTask> lanes, const CancellationToken& cancel) override {
    if (lanes.empty()) return InvalidArgument("a trainer was given no task");
    for (const LaneTask& lane : lanes)
      RIVULET_CHECK(lane.task != nullptr && lane.base != nullptr && lane.examples != nullptr);
    EnterWorkerThread();
    RIVULET_RETURN_IF_ERROR(BindBase());
    const LaneTask& lane = lanes[0];
    if (lanes.size() > 1) {
      return host_lanes_.Train(SharedPass(lane.task->kind, lane.examples->size()), lanes, buffers_, layout_, cancel);
    }
    std::vector<LocalResult> results(1);
    LaneRun run{.task = *lane.task,
                .client_id = lane.client_id,
                .examples = *lane.examples,
                .state = lane.state,
                .beside = lane.beside,
                .cancel = cancel,
                .example_key = lane.example_key,
                .checkpoint = lane.checkpoint};
    results[0].status = BindBroadcasts(lane.broadcasts, lane.task->kind);
    if (results[0].status.ok()) results[0].status = TrainLane(run, *lane.base, results[0]);
    return results;
  }

 private:
  Status BindBroadcasts(std::span<const AlignedBuffer* const> broadcasts, TaskKind kind) {
    RIVULET_RETURN_IF_ERROR(CheckBroadcasts(plan_, table_, kind, broadcasts));
    if (!plan_.reads_broadcasts(kind)) return absl::OkStatus();
    for (size_t i = 0; i < plan_.flat_names().broadcast.size(); ++i) {
      // The programs only read it.
      buffers_[Index(table_.broadcast(i))].data = const_cast<std::byte*>(broadcasts[i]->data());
    }
    return absl::OkStatus();
  }

  // The only pass of tasks that may be trained with others; null: they are trained alone.
  const BoundPass* SharedPass(TaskKind kind, int64_t size) {
    const std::vector<BoundPass>* const passes = passes_.Find(kind);
    return !by_example_ && kept_.empty() && passes != nullptr && TakesOneStep(*passes, size) ? &passes->front()
                                                                                             : nullptr;
  }

  std::span<float> Gradients() {
    AlignedBuffer& grads = memory_[BufferTable::kGrads];
    return {reinterpret_cast<float*>(grads.data()), grads.size() / sizeof(float)};
  }
  // Their memory is the process's, and the plan keeps it as long as this lives.
  Status BindBase() {
    if (plan_.layout()->base_variables().empty()) return absl::OkStatus();
    RIVULET_ASSIGN_OR_RETURN(const std::span<const Buffer> values, plan_.base_buffers());
    for (size_t i = 0; i < values.size(); ++i) buffers_[Index(table_.base(i))] = values[i];
    return absl::OkStatus();
  }
  GraphNumbers Numbers() { return {plan_, table_, memory_[BufferTable::kScalars].data()}; }

  Status TrainLane(LaneRun& lane, const Model& base, LocalResult& result) {
    const auto started = std::chrono::steady_clock::now();
    RIVULET_RETURN_IF_ERROR(CheckExamples(lane.client_id, lane.size, lane.task.kind));
    RIVULET_RETURN_IF_ERROR(layout_.Check(base));
    std::vector<BoundPass>* const passes = passes_.Find(lane.task.kind);
    if (passes == nullptr) {
      return InvalidArgument("plan '{}' does not say how to {}", plan_.name(), Name(lane.task.kind));
    }
    const bool by_example = by_example_ && lane.task.kind == TaskKind::kTrain;
    if (by_example && lane.example_key == nullptr) {
      return FailedPrecondition("plan '{}' protects single examples, and this client has no noise key", plan_.name());
    }
    lane.from_base = !by_example && TakesOneStep(*passes, lane.size);
    RIVULET_RETURN_IF_ERROR(by_example ? passes_.ByExample().status() : PrepareSteps(lane, *passes));
    RIVULET_RETURN_IF_ERROR(Begin(lane, base, result));
    GraphNumbers numbers = Numbers();
    for (; lane.at.pass < passes->size(); ++lane.at.pass) {
      BoundPass& pass = (*passes)[lane.at.pass];
      if (!lane.goes_on) {
        lane.BeginPass();
        lane.at.declared = result.declared;
        if (pass.begin != nullptr) RIVULET_RETURN_IF_ERROR(steps_.Run(lane, *pass.begin));
      }
      RIVULET_RETURN_IF_ERROR(by_example ? example_steps_.Run(lane, pass, Gradients(), *lane.example_key)
                                         : steps_.Run(lane, pass));
      numbers.SetSteps(lane.at.step - lane.at.pass_step);
      DeclarePass(*pass.pass, lane.at.sums, lane.at.seen, result.declared);
      numbers.Tell(result.declared);
      if (pass.end != nullptr) RIVULET_RETURN_IF_ERROR(steps_.Run(lane, *pass.end));
    }
    numbers.Declare(lane.task, result.declared);
    CloseResult(lane.size, lane.at.step, result);
    if (lane.task.kind == TaskKind::kTrain) LeaveUpdate(result);
    result.train_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    RIVULET_VLOG(1, "client '{}': {} steps over {} examples from round {}, loss {:.4f}, {:.3f} s", lane.client_id,
                 lane.at.step, lane.size, lane.task.base_version, result.train_loss.value_or(0), *result.train_seconds);
    return absl::OkStatus();
  }

  // Every program before the first step, so that a plan that cannot be compiled for the last, smaller batch fails
  // before any training.
  Status PrepareSteps(const LaneRun& lane, std::vector<BoundPass>& passes) {
    for (BoundPass& pass : passes) {
      if (pass.pass->input != nullptr) continue;
      const int64_t batch_size = std::min(pass.pass->batch_size, lane.size);
      RIVULET_RETURN_IF_ERROR(passes_.Step(pass, batch_size, lane.from_base).status());
      if (lane.size % batch_size != 0 && !lane.from_base)
        RIVULET_RETURN_IF_ERROR(passes_.Step(pass, lane.size % batch_size).status());
    }
    return absl::OkStatus();
  }

  // Initial content of the buffers for the first program.
  Status Begin(LaneRun& lane, const Model& base, LocalResult& result) {
    if (!lane.from_base) std::memcpy(memory_[BufferTable::kParams].data(), base.arena().data(), base.arena().size());
    // The programs only read it.
    buffers_[BufferTable::kBaseParams].data = const_cast<std::byte*>(base.arena().data());
    RIVULET_RETURN_IF_ERROR(BeginState(plan_, lane.task, base, lane.state, kept_, lane.beside));
    lane.rng = StreamOf(lane.task, Purpose::kGraph);
    RIVULET_RETURN_IF_ERROR(Numbers().Begin(lane.task, result.declared));
    lane.bindings.buffers = buffers_;
    lane.bindings.rng = {&lane.rng, 1};
    lane.bindings.step = {&lane.at.step, 1};
    lane.bindings.observer = observer_;
    if (lane.checkpoint != nullptr) lane.own = OwnBuffers();
    lane.GoOn();
    if (lane.goes_on) result.declared = lane.at.declared;
    return absl::OkStatus();
  }

  // All memory that a step may change, besides its position: borrowed buffers are only read.
  std::vector<std::span<std::byte>> OwnBuffers() {
    std::vector<std::span<std::byte>> own;
    for (AlignedBuffer& memory : memory_) {
      if (memory.size() > 0) own.emplace_back(memory.data(), memory.size());
    }
    return own;
  }

  // Sets the parts of the client's update, in place, and its state.
  void LeaveUpdate(LocalResult& result) {
    for (PartRuns& part : parts_) {
      if (!IsIn(*plan_.aggregation().Find(part.name), result.declared)) continue;
      for (size_t i = 0; i < part.runs.size(); ++i) {
        const RunPlace& place = part.places[i];
        part.runs[i] = {FloatsAt(place.from, place.offset),
                        place.less < 0 ? nullptr : FloatsAt(place.less, place.offset), place.count};
      }
      result.parts.push_back({.name = part.name, .runs = part.runs});
    }
    if (!kept_.empty()) result.state = WriteState(kept_);
  }

  // A client of few examples takes one step, and copying the model for it would be a sixth of its time. An observer
  // gets the program of a task of many steps, with every tensor by its name.
  bool TakesOneStep(std::span<const BoundPass> passes, int64_t size) const {
    if (passes.size() != 1 || passes[0].begin != nullptr || observer_ != nullptr) return false;
    const LocalPass& pass = *passes[0].pass;
    if (pass.input != nullptr || pass.gradient_by.empty()) return false;
    return pass.max_steps == 1 || (pass.epochs == 1 && size <= pass.batch_size);
  }

  static size_t Index(int buffer) { return static_cast<size_t>(buffer); }
  const float* FloatsAt(int buffer, size_t offset) const {
    return reinterpret_cast<const float*>(buffers_[Index(buffer)].data + offset);
  }

  const std::shared_ptr<PassPrograms> programs_;
  const Plan& plan_;
  const BufferTable& table_;
  StepMonitor* const monitor_;
  std::vector<AlignedBuffer> memory_;  // by the table's index
  std::vector<Buffer> buffers_;
  std::vector<NamedState> kept_;  // among them
  BoundPasses passes_;
  PassSteps steps_;
  ExampleSteps example_steps_;
  const bool by_example_ = ExampleNoiseOf(plan_).has_value();  // single examples are protected
  KnownLayout layout_;                                         // of base models
  std::vector<PartRuns> parts_;                                // of a training
  HostLanes host_lanes_;
  RunObserver* observer_ = nullptr;
};

}  // namespace

StatusOr<std::unique_ptr<Trainer>> Trainer::Create(std::shared_ptr<PassPrograms> programs, StepMonitor* monitor,
                                                   LoopBudget loops) {
  EnterWorkerThread();
  auto trainer = std::make_unique<LocalTrainer>(std::move(programs), monitor, loops);
  RIVULET_RETURN_IF_ERROR(trainer->Initialise());
  return std::unique_ptr<Trainer>(std::move(trainer));
}

}  // namespace rivulet
