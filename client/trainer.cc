#include "client/trainer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "client/kept_state.h"
#include "client/lane_step.h"
#include "client/part_places.h"
#include "client/pass_programs.h"
#include "client/task_inputs.h"
#include "client/task_streams.h"
#include "client/training_checkpoint.h"
#include "engine/base/check.h"
#include "engine/base/vlog.h"
#include "engine/profile/step_monitor.h"
#include "federated/plan/plan_input.h"

namespace rivulet {
namespace {

constexpr size_t kMostBatchSizes = 32;  // of a plan's input: each is a program

// Examples one by one, as a plan's input takes them. The examples must outlive it.
class ExampleElements : public ElementSource {
 public:
  ExampleElements(const ExampleSource& examples, const Plan& plan) : examples_(examples), plan_(plan) {}
  StatusOr<std::vector<Component>> Read(int64_t index) const override {
    std::vector<Component> components;
    std::vector<TensorView> rows;
    for (const FeatureSpec& feature : plan_.features()) {
      const bool integers = feature.encoding == FeatureSpec::Encoding::kInt64;
      RIVULET_ASSIGN_OR_RETURN(Tensor value, Tensor::Create(integers ? DType::kInt64 : DType::kFloat32, feature.shape));
      rows.push_back(value.view());
      components.emplace_back(std::move(value));
    }
    const uint32_t wanted = static_cast<uint32_t>(index);
    RIVULET_RETURN_IF_ERROR(examples_.Decode({&wanted, 1}, rows));
    return components;
  }

 private:
  const ExampleSource& examples_;
  const Plan& plan_;
};

// One program as this trainer runs it.
struct BoundProgram {
  std::shared_ptr<const Program> program;
  std::unique_ptr<Instance> instance;
  std::vector<TensorView> feeds;
};

// A pass as this trainer runs it.
struct BoundPass {
  TaskKind kind;
  size_t index;                                                             // among the passes of its program
  const LocalPass* pass;                                                    // of the plan
  std::unique_ptr<BoundProgram> begin, end;                                 // null: nothing to do
  std::map<std::pair<int64_t, bool>, std::unique_ptr<BoundProgram>> steps;  // by batch size, and whether from the base
  std::vector<float> values;                                                // of the pass's scalars, in the last step
  std::vector<TensorView> fetches;                                          // where they are
};

// A part, and where the last task has it.
struct PartRuns : PartPlaces {
  std::vector<FloatRun> runs;
};

// One task while it is being trained. The bindings point into it.
struct LaneRun {
  const Task& task;
  std::string_view client_id;
  const ExampleSource& examples;
  std::string_view state;
  std::span<const NamedState> beside;
  const CancellationToken& cancel;
  bool from_base = false;  // its one step reads the base model where it lies
  const int64_t size = examples.size();
  StreamKey rng{};
  TrainingCheckpoint* checkpoint = nullptr;
  TrainingPosition at{};
  bool goes_on = false;  // `at` is where an earlier process was: the epoch there has begun
  Bindings bindings{};
};

// Everything that a task needs is allocated by size and kept: one arena for all programs, since one runs at a time,
// feeds of the largest batch so far, and one buffer per flat variable. Programs hold offsets only, so binding them to
// other memory, the next base model for instance, costs a pointer.
class LocalTrainer : public Trainer {
 public:
  LocalTrainer(std::shared_ptr<PassPrograms> programs, StepMonitor* monitor, LoopBudget loops)
      : programs_(std::move(programs)),
        plan_(programs_->plan()),
        table_(programs_->buffers()),
        monitor_(monitor),
        loops_(loops),
        layout_(plan_) {}

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
    feeds_.resize(plan_.features().size());
    for (PartPlaces& part : PartPlacesOf(plan_, table_)) {
      const size_t runs = part.places.size();
      parts_.push_back({std::move(part), std::vector<FloatRun>(runs)});
    }
    for (const TaskKind kind : {TaskKind::kTrain, TaskKind::kEvaluate}) {
      const LocalProgram* const program = plan_.program(kind);
      for (size_t i = 0; program != nullptr && i < program->passes.size(); ++i) {
        BoundPass& pass = passes_[kind].emplace_back(BoundPass{kind, i, &program->passes[i]});
        pass.values.resize(program->passes[i].scalars.size());
        for (float& value : pass.values)
          pass.fetches.push_back({reinterpret_cast<std::byte*>(&value), DType::kFloat32, Shape{}});
        RIVULET_ASSIGN_OR_RETURN(pass.begin, Bind(programs_->Begin(kind, i)));
        RIVULET_ASSIGN_OR_RETURN(pass.end, Bind(programs_->End(kind, i)));
      }
    }
    return absl::OkStatus();
  }

  void Observe(RunObserver* observer) override { observer_ = observer; }

  // Somebody who looks at steps is shown each client's.
  int MostLanes(TaskKind kind, int64_t examples) override {
    if (monitor_ != nullptr && monitor_->MayRecord()) return 1;
    const FlatNames& flats = plan_.flat_names();
    if (!flats.numbers.empty() || !flats.declared.empty()) return 1;  // lanes share the numbers of a task
    const LaneStep* const step = LanesFor(kind, examples);
    return step == nullptr ? 1 : step->most();
  }

  StatusOr<std::vector<LocalResult>> Train(std::span<const LaneTask> lanes, const CancellationToken& cancel) override {
    if (lanes.empty()) return InvalidArgument("a trainer was given no task");
    for (const LaneTask& lane : lanes)
      RIVULET_CHECK(lane.task != nullptr && lane.base != nullptr && lane.examples != nullptr);
    EnterWorkerThread();
    if (lanes.size() > 1) return TrainTogether(lanes, cancel);
    const LaneTask& lane = lanes[0];
    std::vector<LocalResult> results(1);
    LaneRun run{.task = *lane.task,
                .client_id = lane.client_id,
                .examples = *lane.examples,
                .state = lane.state,
                .beside = lane.beside,
                .cancel = cancel,
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

  // Null: such tasks are trained one by one.
  LaneStep* LanesFor(TaskKind kind, int64_t size) {
    if (kind != TaskKind::kTrain || size <= 0 || !kept_.empty()) return nullptr;
    const auto found = passes_.find(kind);
    if (found == passes_.end() || !TakesOneStep(found->second, size) || found->second[0].end != nullptr ||
        !plan_.flat_names().broadcast.empty() ||
        std::ranges::any_of(plan_.aggregation().parts,
                            [](const PartSpec& part) { return part.only_where.has_value(); })) {
      return nullptr;
    }
    const int64_t batch_size = std::min(found->second[0].pass->batch_size, size);
    const auto [step, added] = lane_steps_.try_emplace(batch_size);
    if (added) {
      const std::vector<PartPlaces> places(parts_.begin(), parts_.end());
      auto program = programs_->Lanes(kind, 0, batch_size);
      if (program != nullptr) step->second = LaneStep::Create(std::move(program), places);
    }
    return step->second.get();
  }

  // One step of each, all of them at once: what TrainLane does for one lane, in the same order of draws and sums.
  StatusOr<std::vector<LocalResult>> TrainTogether(std::span<const LaneTask> lanes, const CancellationToken& cancel) {
    const auto started = std::chrono::steady_clock::now();
    const LaneTask& first = lanes[0];
    const int64_t size = first.examples->size();
    LaneStep* const step = LanesFor(first.task->kind, size);
    const int most = step == nullptr ? 1 : step->most();
    if (std::ssize(lanes) > most) {
      return InvalidArgument("the trainer has {} lanes for such tasks, and not {}", most, lanes.size());
    }
    const auto alike = [&](const LaneTask& lane) {
      return lane.task->kind == first.task->kind && lane.task->base_version == first.task->base_version &&
             lane.base == first.base && lane.examples->size() == size && lane.state.empty() && lane.beside.empty();
    };
    if (!std::ranges::all_of(lanes, alike))
      return InvalidArgument("tasks that are not alike cannot be trained at once");
    RIVULET_RETURN_IF_ERROR(layout_.Check(*first.base));
    if (lane_memory_.size() < step->bytes()) {
      RIVULET_ASSIGN_OR_RETURN(lane_memory_, AlignedBuffer::Create(step->bytes()));
    }
    step->Use(lane_memory_.data());
    buffers_[BufferTable::kBaseParams].data = const_cast<std::byte*>(first.base->arena().data());
    auto* const numbers = reinterpret_cast<double*>(memory_[BufferTable::kScalars].data());
    numbers[BufferTable::kRound] = static_cast<double>(first.task->base_version);

    BoundPass& pass = passes_.at(first.task->kind)[0];
    const auto number = static_cast<int>(lanes.size());
    const auto count = static_cast<size_t>(std::min(pass.pass->batch_size, size));
    std::vector<LaneRun> runs;
    for (int i = 0; i < number; ++i) {
      const LaneTask& lane = lanes[static_cast<size_t>(i)];
      LaneRun& run = runs.emplace_back(LaneRun{.task = *lane.task,
                                               .client_id = lane.client_id,
                                               .examples = *lane.examples,
                                               .state = {},
                                               .beside = {},
                                               .cancel = cancel});
      BeginEpoch(run, pass);
      OrderInto(order_, run.task, run.at.epoch, run.size, pass.pass->shuffle);
      RIVULET_RETURN_IF_ERROR(lane.examples->Decode(std::span(order_).first(count), step->Feeds(i, number)));
    }
    RIVULET_RETURN_IF_ERROR(step->Run(number, buffers_, cancel));
    std::vector<LocalResult> results(lanes.size());
    for (int i = 0; i < number; ++i) {
      LaneRun& run = runs[static_cast<size_t>(i)];
      LocalResult& result = results[static_cast<size_t>(i)];
      Count(run, pass, step->Scalars(i), static_cast<int64_t>(count));
      Declare(run, pass, result);
      result.parts = step->Parts(i);
      Close(run, result);
    }
    const std::chrono::duration<double> all = std::chrono::steady_clock::now() - started;
    for (LocalResult& result : results) result.train_seconds = all.count() / static_cast<double>(lanes.size());
    RIVULET_VLOG(1, "{} clients at once: a step of {} examples each from round {}, {:.6f} s each", lanes.size(), count,
                 first.task->base_version, results[0].train_seconds);
    return results;
  }

  // Of the last epoch: a loss is that of the model as it is sent, as nearly as training tells.
  static void Declare(const LaneRun& lane, const BoundPass& pass, LocalResult& result) {
    for (size_t i = 0; i < lane.at.sums.size(); ++i) {
      const PassScalar& scalar = pass.pass->scalars[i];
      result.declared[scalar.name] = scalar.sum ? lane.at.sums[i] : lane.at.sums[i] / static_cast<double>(lane.at.seen);
    }
  }

  // What a task brings in numbers: graphs read it, and an update declares it, as it may count by it.
  Status TakeNumbers(const Task& task, LocalResult& result) {
    if (task.kind != TaskKind::kTrain) return absl::OkStatus();
    auto* const numbers = reinterpret_cast<double*>(memory_[BufferTable::kScalars].data());
    const std::vector<std::string>& names = plan_.flat_names().numbers;
    for (size_t i = 0; i < names.size(); ++i) {
      const auto told = task.numbers.find(names[i]);
      if (told == task.numbers.end() || !std::isfinite(told->second)) {
        return InvalidArgument("the task brings no number '{}', which plan '{}' reads", names[i], plan_.name());
      }
      numbers[table_.number(i)] = told->second;
      result.declared[names[i]] = told->second;
    }
    return absl::OkStatus();
  }

  // What passes have reported so far, for the graphs that read it.
  void TellGraphs(const LocalResult& result) {
    auto* const numbers = reinterpret_cast<double*>(memory_[BufferTable::kScalars].data());
    const std::vector<std::string>& names = plan_.flat_names().measured;
    for (size_t i = 0; i < names.size(); ++i) {
      if (const auto told = result.declared.find(names[i]); told != result.declared.end())
        numbers[table_.measured(i)] = told->second;
    }
  }

  // What graphs have left to be declared with an update.
  void DeclareWritten(const Task& task, LocalResult& result) const {
    if (task.kind != TaskKind::kTrain) return;
    const auto* const numbers = reinterpret_cast<const double*>(memory_[BufferTable::kScalars].data());
    const std::vector<std::string>& names = plan_.flat_names().declared;
    for (size_t i = 0; i < names.size(); ++i) result.declared[names[i]] = numbers[table_.declared(i)];
  }

  static void Close(const LaneRun& lane, LocalResult& result) {
    result.examples = lane.size;
    result.steps = static_cast<int64_t>(lane.at.step);
    if (const auto loss = result.declared.find("train_loss"); loss != result.declared.end())
      result.train_loss = loss->second;
    result.declared["examples"] = static_cast<double>(lane.size);
    result.declared["steps"] = static_cast<double>(lane.at.step);
  }

  Status TrainLane(LaneRun& lane, const Model& base, LocalResult& result) {
    const auto started = std::chrono::steady_clock::now();
    const int64_t size = lane.size;
    if (size <= 0)
      return FailedPrecondition("client '{}' has no examples to {} on", lane.client_id, Name(lane.task.kind));
    if (size > UINT32_MAX) return InvalidArgument("client '{}' has {} examples, beyond 2^32 - 1", lane.client_id, size);
    RIVULET_RETURN_IF_ERROR(layout_.Check(base));
    const auto found = passes_.find(lane.task.kind);
    if (found == passes_.end()) {
      return InvalidArgument("plan '{}' does not say how to {}", plan_.name(), Name(lane.task.kind));
    }
    std::vector<BoundPass>& passes = found->second;
    lane.from_base = TakesOneStep(passes, size);
    // Every program before the first step, so that a plan that cannot be compiled for the last, smaller batch fails
    // before anything has been trained.
    for (BoundPass& pass : passes) {
      if (pass.pass->input != nullptr) continue;
      const int64_t batch_size = std::min(pass.pass->batch_size, size);
      RIVULET_RETURN_IF_ERROR(StepProgram(pass, batch_size, lane.from_base).status());
      if (size % batch_size != 0 && !lane.from_base)
        RIVULET_RETURN_IF_ERROR(StepProgram(pass, size % batch_size).status());
    }

    if (!lane.from_base) std::memcpy(memory_[BufferTable::kParams].data(), base.arena().data(), base.arena().size());
    // The programs only read it.
    buffers_[BufferTable::kBaseParams].data = const_cast<std::byte*>(base.arena().data());
    RIVULET_RETURN_IF_ERROR(BeginState(plan_, lane.task, base, lane.state, kept_, lane.beside));
    lane.rng = StreamOf(lane.task, Purpose::kGraph);
    auto* const numbers = reinterpret_cast<double*>(memory_[BufferTable::kScalars].data());
    numbers[BufferTable::kRound] = static_cast<double>(lane.task.base_version);
    RIVULET_RETURN_IF_ERROR(TakeNumbers(lane.task, result));
    const FlatNames& flats = plan_.flat_names();
    for (size_t i = 0; i < flats.measured.size(); ++i) numbers[table_.measured(i)] = 0;
    for (size_t i = 0; i < flats.declared.size(); ++i) numbers[table_.declared(i)] = 0;
    lane.bindings.buffers = buffers_;
    lane.bindings.rng = {&lane.rng, 1};
    lane.bindings.step = {&lane.at.step, 1};
    lane.bindings.observer = observer_;
    lane.bindings.max_loop_steps = loops_.max_steps;
    GoOn(lane, result);
    for (; lane.at.pass < passes.size(); ++lane.at.pass) {
      BoundPass& pass = passes[lane.at.pass];
      if (!lane.goes_on) {
        lane.at.pass_step = lane.at.step;
        lane.at.pass_epoch = lane.at.epoch;
        lane.at.declared = result.declared;
        if (pass.begin != nullptr) RIVULET_RETURN_IF_ERROR(Run(lane, *pass.begin));
      }
      RIVULET_RETURN_IF_ERROR(pass.pass->input != nullptr ? StepsOverInput(lane, pass) : StepsOverEpochs(lane, pass));
      numbers[BufferTable::kSteps] = static_cast<double>(lane.at.step - lane.at.pass_step);
      Declare(lane, pass, result);
      TellGraphs(result);
      if (pass.end != nullptr) RIVULET_RETURN_IF_ERROR(Run(lane, *pass.end));
    }

    DeclareWritten(lane.task, result);
    Close(lane, result);
    for (PartRuns& part : lane.task.kind == TaskKind::kTrain ? parts_ : no_parts_) {
      if (!IsIn(*plan_.aggregation().Find(part.name), result.declared)) continue;
      for (size_t i = 0; i < part.runs.size(); ++i) {
        const RunPlace& place = part.places[i];
        part.runs[i] = {FloatsAt(place.from, place.offset),
                        place.less < 0 ? nullptr : FloatsAt(place.less, place.offset), place.count};
      }
      result.parts.push_back({.name = part.name, .runs = part.runs});
    }
    if (!kept_.empty() && lane.task.kind == TaskKind::kTrain) result.state = WriteState(kept_);
    result.train_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    RIVULET_VLOG(1, "client '{}': {} steps over {} examples from round {}, loss {:.4f}, {:.3f} s", lane.client_id,
                 lane.at.step, size, lane.task.base_version, result.train_loss, result.train_seconds);
    return absl::OkStatus();
  }

  // All that a step may change beside its position: what is borrowed is only read.
  std::vector<std::span<std::byte>> OwnBuffers() {
    std::vector<std::span<std::byte>> own;
    for (AlignedBuffer& memory : memory_) {
      if (memory.size() > 0) own.emplace_back(memory.data(), memory.size());
    }
    return own;
  }

  // Where an earlier process was with this task, if it has left that.
  void GoOn(LaneRun& lane, LocalResult& result) {
    if (lane.checkpoint == nullptr || lane.from_base) return;
    std::optional<TrainingPosition> left = lane.checkpoint->GoOn(OwnBuffers());
    if (!left) return;
    lane.at = *std::move(left);
    lane.goes_on = true;
    result.declared = lane.at.declared;
  }

  // A client of few examples takes one step, and copying the model for it would be a sixth of its time. An observer is
  // shown the program that a task of many steps runs, with every tensor by its name.
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
  Status Run(LaneRun& lane, BoundProgram& program) {
    lane.bindings.arena = arena_.data();  // a batch of a new size may have made it larger
    lane.bindings.deadline = std::chrono::steady_clock::now() + loops_.max_time;
    return program.instance->Run(lane.bindings, lane.cancel);
  }

  Status Step(LaneRun& lane, const BoundPass& pass, BoundProgram& program, int64_t count) {
    lane.bindings.feeds = program.feeds;
    lane.bindings.fetches = pass.fetches;
    {
      MonitoredRun watched(monitor_, lane.bindings);
      RIVULET_RETURN_IF_ERROR(Run(lane, program));
      watched.Done();
    }
    lane.bindings.feeds = {};
    lane.bindings.fetches = {};
    RIVULET_VLOG(2, "client '{}': step {}, {} examples, {}", lane.client_id, lane.at.step, count,
                 fmt::join(pass.values, " "));
    Count(lane, pass, pass.values, count);
    if (lane.checkpoint != nullptr && lane.checkpoint->Due()) lane.checkpoint->Keep(lane.at, OwnBuffers());
    return absl::OkStatus();
  }

  // What a step over `count` examples has given.
  static void Count(LaneRun& lane, const BoundPass& pass, std::span<const float> values, int64_t count) {
    for (size_t i = 0; i < values.size(); ++i)
      lane.at.sums[i] += static_cast<double>(values[i]) * (pass.pass->scalars[i].sum ? 1 : static_cast<double>(count));
    lane.at.seen += count;
    ++lane.at.batches;
    ++lane.at.step;
  }

  // Not again where an earlier process had begun it.
  static void BeginEpoch(LaneRun& lane, const BoundPass& pass) {
    if (std::exchange(lane.goes_on, false)) return;
    lane.at.sums.assign(pass.values.size(), 0);
    lane.at.seen = 0;
    lane.at.batches = 0;
  }

  Status StepsOverEpochs(LaneRun& lane, BoundPass& bound) {
    const LocalPass& pass = *bound.pass;
    const int64_t size = lane.size, batch_size = std::min(pass.batch_size, size);
    RIVULET_ASSIGN_OR_RETURN(BoundProgram* const whole, StepProgram(bound, batch_size, lane.from_base));
    BoundProgram* rest = nullptr;
    if (size % batch_size != 0 && !lane.from_base) {
      RIVULET_ASSIGN_OR_RETURN(rest, StepProgram(bound, size % batch_size));
    }
    const uint64_t last = LastStep(lane, pass);
    for (; MayBegin(lane, pass, last); ++lane.at.epoch) {
      BeginEpoch(lane, bound);
      OrderInto(order_, lane.task, lane.at.epoch, lane.size, pass.shuffle);
      while (lane.at.seen < size && lane.at.step < last) {
        const int64_t count = std::min(batch_size, size - lane.at.seen);
        BoundProgram& program = count == batch_size ? *whole : *rest;
        RIVULET_RETURN_IF_ERROR(lane.examples.Decode(
            std::span(order_).subspan(static_cast<size_t>(lane.at.seen), static_cast<size_t>(count)), program.feeds));
        RIVULET_RETURN_IF_ERROR(Step(lane, bound, program, count));
      }
    }
    return absl::OkStatus();
  }

  Status StepsOverInput(LaneRun& lane, BoundPass& bound) {
    const LocalPass& pass = *bound.pass;
    RIVULET_ASSIGN_OR_RETURN(const auto input,
                             BuildInput(plan_, pass, std::make_shared<ExampleElements>(lane.examples, plan_), lane.size,
                                        StreamOf(lane.task, Purpose::kShuffle)));
    IteratorContext context;
    context.budget = InputBudgetFor(pass, lane.size);
    const uint64_t last = LastStep(lane, pass);
    // How an input shuffles may depend on what it has given before: epochs that an earlier process has had are read.
    for (uint64_t epoch = lane.at.pass_epoch; lane.goes_on && epoch < lane.at.epoch; ++epoch) {
      RIVULET_ASSIGN_OR_RETURN(const auto batches, input->MakeIterator(context));
      RIVULET_RETURN_IF_ERROR(Skip(lane, *batches, UINT64_MAX));
    }
    for (; MayBegin(lane, pass, last); ++lane.at.epoch) {
      BeginEpoch(lane, bound);
      RIVULET_ASSIGN_OR_RETURN(const auto batches, input->MakeIterator(context));
      RIVULET_RETURN_IF_ERROR(Skip(lane, *batches, lane.at.batches));
      while (lane.at.step < last) {
        Element batch;
        StatusOr<bool> more = batches->Next(lane.cancel, batch);
        if (!more.ok()) return Annotate(more.status(), fmt::format("the input of plan '{}'", plan_.name()));
        if (!*more) break;
        RIVULET_ASSIGN_OR_RETURN(const auto fed, Feed(bound, batch));
        RIVULET_RETURN_IF_ERROR(Step(lane, bound, *fed.first, fed.second));
      }
      if (lane.at.seen == 0)
        return FailedPrecondition("the input of plan '{}' gives no batch of the {} examples of client '{}'",
                                  plan_.name(), lane.size, lane.client_id);
    }
    return absl::OkStatus();
  }

  // As many batches as there are, at most `count`.
  static Status Skip(const LaneRun& lane, PipelineIterator& batches, uint64_t count) {
    for (; count > 0; --count) {
      Element batch;
      RIVULET_ASSIGN_OR_RETURN(const bool more, batches.Next(lane.cancel, batch));
      if (!more) break;
    }
    return absl::OkStatus();
  }

  // The step at which the pass is over, whatever is left of its epochs.
  static uint64_t LastStep(const LaneRun& lane, const LocalPass& pass) {
    return pass.max_steps == 0 ? UINT64_MAX : lane.at.pass_step + static_cast<uint64_t>(pass.max_steps);
  }
  // Another epoch of the pass. One that an earlier process had begun ends here, also where no step of it is left.
  static bool MayBegin(const LaneRun& lane, const LocalPass& pass, uint64_t last) {
    return static_cast<int64_t>(lane.at.epoch - lane.at.pass_epoch) < EpochsOf(lane.task, pass) &&
           (lane.goes_on || lane.at.step < last);
  }

  // Null of no program.
  StatusOr<std::unique_ptr<BoundProgram>> Bind(StatusOr<std::shared_ptr<const Program>> program) {
    RIVULET_RETURN_IF_ERROR(program.status());
    if (*program == nullptr) return nullptr;
    auto bound = std::make_unique<BoundProgram>();
    bound->program = *std::move(program);
    RIVULET_ASSIGN_OR_RETURN(bound->instance, bound->program->Instantiate());
    const std::vector<FeedSpec>& feeds = bound->program->signature().feeds;
    for (size_t i = 0; i < feeds.size(); ++i) {
      TensorView& view = bound->feeds.emplace_back(TensorView{nullptr, feeds[i].spec.dtype, feeds[i].spec.shape});
      // A larger buffer has another address, so programs that were bound to the smaller one are told.
      if (view.bytes() > feeds_[i].size()) {
        RIVULET_ASSIGN_OR_RETURN(feeds_[i], AlignedBuffer::Create(view.bytes()));
        for (auto& [kind, passes] : passes_) {
          for (BoundPass& pass : passes) {
            for (auto& [size, step] : pass.steps) {
              if (step != nullptr) step->feeds[i].data = feeds_[i].data();
            }
          }
        }
      }
      view.data = feeds_[i].data();
    }
    if (bound->program->memory().arena_bytes > arena_.size()) {
      StatusOr<AlignedBuffer> arena = AlignedBuffer::Create(bound->program->memory().arena_bytes);
      if (!arena.ok()) return Annotate(arena.status(), "the arena of the training program");
      arena_ = *std::move(arena);
    }
    return bound;
  }

  StatusOr<BoundProgram*> StepProgram(BoundPass& pass, int64_t batch_size, bool from_base = false) {
    std::unique_ptr<BoundProgram>& step = pass.steps[{batch_size, from_base}];
    if (step == nullptr) {
      RIVULET_ASSIGN_OR_RETURN(step, Bind(programs_->Step(pass.kind, pass.index, batch_size, from_base)));
    }
    return step.get();
  }

  // Puts a batch of the pass's input into the feeds of the program of its size.
  StatusOr<std::pair<BoundProgram*, int64_t>> Feed(BoundPass& pass, Element& batch) {
    RIVULET_ASSIGN_OR_RETURN(const auto components, batch.Components());
    const std::vector<FeatureSpec>& features = plan_.features();
    const Shape& first = components[0].shape();
    const int64_t count = first.rank() > 0 ? first.dim(0) : 0;
    bool fits = components.size() == features.size() && count > 0;
    for (size_t i = 0; fits && i < features.size(); ++i) {
      std::vector<int64_t> dims = {count};
      dims.insert(dims.end(), features[i].shape.dims().begin(), features[i].shape.dims().end());
      fits = components[i].shape() == Shape(dims);
    }
    if (!fits) {
      std::vector<TensorSpec> specs;
      for (const Component& component : components) specs.push_back(component.spec());
      return InvalidArgument("the input of plan '{}' gives a batch {}, which the model cannot be fed with",
                             plan_.name(), Describe(specs));
    }
    // Each size is a program to compile and to keep. A plan whose input gives ever new sizes would cost memory without
    // end.
    if (!pass.steps.contains({count, false}) && pass.steps.size() >= kMostBatchSizes)
      return ResourceExhausted("the input of plan '{}' gives batches of more than {} different sizes", plan_.name(),
                               kMostBatchSizes);
    RIVULET_ASSIGN_OR_RETURN(BoundProgram* const program, StepProgram(pass, count));
    for (size_t i = 0; i < components.size(); ++i)
      std::memcpy(program->feeds[i].data, components[i].tensor().data(), program->feeds[i].bytes());
    return std::pair(program, count);
  }

  const std::shared_ptr<PassPrograms> programs_;
  const Plan& plan_;
  const BufferTable& table_;
  StepMonitor* const monitor_;
  const LoopBudget loops_;
  std::vector<AlignedBuffer> memory_;  // by the table's index
  std::vector<Buffer> buffers_;
  std::vector<NamedState> kept_;            // among them
  std::vector<AlignedBuffer> feeds_;        // of the largest batch so far; smaller ones use their front
  AlignedBuffer arena_;                     // of the largest program; all share it
  KnownLayout layout_;                      // of base models
  std::vector<PartRuns> parts_, no_parts_;  // of a training; of an evaluation
  std::vector<uint32_t> order_;
  RunObserver* observer_ = nullptr;
  std::map<int64_t, std::unique_ptr<LaneStep>> lane_steps_;  // by batch size; null: none
  AlignedBuffer lane_memory_;                                // of the largest of them
  std::map<TaskKind, std::vector<BoundPass>> passes_;
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
