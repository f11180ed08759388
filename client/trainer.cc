#include "client/trainer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "client/program_cache.h"
#include "engine/base/check.h"
#include "engine/base/vlog.h"
#include "engine/profile/step_monitor.h"
#include "federated/plan/plan_input.h"
#include "federated/random/streams.h"

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

// Everything that a task needs is allocated by size and kept: one arena for all programs, since one runs at a time,
// feeds of the largest batch so far, and one buffer per flat variable. Programs hold offsets only, so binding them to
// other memory, the next base model for instance, costs a pointer.
class LocalTrainer : public Trainer {
 public:
  LocalTrainer(std::shared_ptr<ProgramCache> programs, StepMonitor* monitor, LoopBudget loops)
      : programs_(std::move(programs)),
        plan_(programs_->plan()),
        monitor_(monitor),
        loops_(loops),
        known_layout_(plan_.layout()) {}

  Status Initialise() {
    for (int i = 0; i < programs_->buffers(); ++i) {
      // The base model is bound to the memory of the model that all trainers share.
      RIVULET_ASSIGN_OR_RETURN(AlignedBuffer memory,
                               AlignedBuffer::Create(i == kBaseParamsBuffer ? 0 : programs_->buffer_bytes(i)));
      memory_.push_back(std::move(memory));
      buffers_.push_back({memory_.back().data(), DType::kFloat32, 0});
    }
    feeds_.resize(plan_.features().size());
    for (const Slice& slice : plan_.layout()->slices()) {
      if (slice.segment != Segment::kTrainable && slice.segment != Segment::kShared) continue;
      const auto* const values = reinterpret_cast<const float*>(memory_[kUpdateBuffer].data() + slice.offset);
      // Slices with no padding between are one run: the fewer, the quicker is what reads them.
      if (!delta_.empty() && delta_.back().values + delta_.back().count == values)
        delta_.back().count += slice.elements;
      else
        delta_.push_back({values, nullptr, slice.elements});
    }
    RIVULET_ASSIGN_OR_RETURN(init_, Bind(programs_->Init()));
    RIVULET_ASSIGN_OR_RETURN(final_, Bind(programs_->Final()));
    return absl::OkStatus();
  }

  void Observe(RunObserver* observer) override { observer_ = observer; }

  StatusOr<std::vector<LocalResult>> Train(std::span<const LaneTask> lanes, const CancellationToken& cancel) override {
    if (lanes.size() != 1) return InvalidArgument("a trainer on a CPU has 1 lane, and not {}", lanes.size());
    const LaneTask& lane = lanes[0];
    RIVULET_CHECK(lane.task != nullptr && lane.base != nullptr && lane.examples != nullptr);
    EnterWorkerThread();
    std::vector<LocalResult> results(1);
    results[0].status = TrainLane(*lane.task, lane.client_id, *lane.base, *lane.examples, cancel, results[0]);
    return results;
  }

 private:
  Status TrainLane(const Task& task, std::string_view client_id, const Model& base, const ExampleSource& examples,
                   const CancellationToken& cancel, LocalResult& result) {
    const auto started = std::chrono::steady_clock::now();
    const int64_t size = examples.size();
    if (size <= 0) return FailedPrecondition("client '{}' has no examples to train on", client_id);
    if (size > UINT32_MAX) return InvalidArgument("client '{}' has {} examples, beyond 2^32 - 1", client_id, size);
    // In one process the base comes with the coordinator's own layout: compared once, as that takes hashing.
    if (base.shared_layout() != known_layout_) {
      if (base.layout().digest() != plan_.layout()->digest()) {
        return InvalidArgument("the base model's variables are not those of plan '{}'", plan_.name());
      }
      known_layout_ = base.shared_layout();
    }
    const bool own_input = plan_.input_graph() != nullptr;
    const int64_t batch_size = std::min(plan_.batch_size(), size);
    // Both programs before the first step, so that a plan that cannot be compiled for the last, smaller batch fails
    // before anything has been trained.
    BoundProgram *whole = nullptr, *rest = nullptr;
    if (!own_input) {
      RIVULET_ASSIGN_OR_RETURN(whole, StepProgram(batch_size));
      if (size % batch_size != 0) {
        RIVULET_ASSIGN_OR_RETURN(rest, StepProgram(size % batch_size));
      }
    }

    std::memcpy(memory_[kParamsBuffer].data(), base.arena().data(), base.arena().size());
    buffers_[kBaseParamsBuffer].data = const_cast<std::byte*>(base.arena().data());  // the programs only read it
    // The stream follows from the task alone (the client's key, base version, ordinal). Which trainer runs it, in which
    // process and after how many other tasks, cannot change a draw.
    const StreamKey rng =
        StreamFor(task.stream_key, Purpose::kGraph, static_cast<uint32_t>(task.base_version), task.ordinal);
    *reinterpret_cast<double*>(memory_[kScalarsBuffer].data()) = static_cast<double>(task.base_version);
    uint64_t step = 0;
    float loss = 0;
    const TensorView loss_view{reinterpret_cast<std::byte*>(&loss), DType::kFloat32, Shape{}};
    Bindings bindings;
    bindings.buffers = buffers_;
    bindings.rng = {&rng, 1};
    bindings.step = {&step, 1};
    bindings.observer = observer_;
    bindings.max_loop_steps = loops_.max_steps;
    const auto run = [&](BoundProgram& program) {
      bindings.arena = arena_.data();  // a batch of a new size may have made it larger
      bindings.deadline = std::chrono::steady_clock::now() + loops_.max_time;
      return program.instance->Run(bindings, cancel);
    };
    RIVULET_RETURN_IF_ERROR(run(*init_));

    bindings.fetches = {&loss_view, 1};
    double loss_sum = 0;
    int64_t seen = 0;  // examples of this epoch
    const auto bound = static_cast<uint64_t>(plan_.max_steps());
    const auto train_on = [&](BoundProgram& program, int64_t count) -> Status {
      bindings.feeds = program.feeds;
      MonitoredRun watched(monitor_, bindings);
      RIVULET_RETURN_IF_ERROR(run(program));
      watched.Done();
      RIVULET_VLOG(2, "client '{}': step {}, {} examples, loss {}", client_id, step, count, loss);
      loss_sum += static_cast<double>(loss) * static_cast<double>(count);
      seen += count;
      ++step;
      return absl::OkStatus();
    };
    std::shared_ptr<const Pipeline> input;
    IteratorContext input_context;
    if (own_input) {
      RIVULET_ASSIGN_OR_RETURN(input, BuildInput(plan_, std::make_shared<ExampleElements>(examples, plan_), size,
                                                 StreamFor(task.stream_key, Purpose::kShuffle,
                                                           static_cast<uint32_t>(task.base_version), task.ordinal)));
      input_context.budget = InputBudgetFor(plan_, size);
    }
    for (int64_t epoch = 0; own_input && epoch < plan_.epochs() && (bound == 0 || step < bound); ++epoch) {
      // Of the last epoch: the loss that is reported is that of the model as it is sent, as nearly as training tells.
      loss_sum = 0;
      seen = 0;
      RIVULET_ASSIGN_OR_RETURN(const auto batches, input->MakeIterator(input_context));
      while (bound == 0 || step < bound) {
        Element batch;
        StatusOr<bool> more = batches->Next(cancel, batch);
        if (!more.ok()) return Annotate(more.status(), fmt::format("the input of plan '{}'", plan_.name()));
        if (!*more) break;
        RIVULET_ASSIGN_OR_RETURN(const auto fed, Feed(batch));
        RIVULET_RETURN_IF_ERROR(train_on(*fed.first, fed.second));
      }
      if (seen == 0)
        return FailedPrecondition("the input of plan '{}' gives no batch of the {} examples of client '{}'",
                                  plan_.name(), size, client_id);
    }
    for (int64_t epoch = 0; !own_input && epoch < plan_.epochs() && (bound == 0 || step < bound); ++epoch) {
      ShuffleInto(order_, task, static_cast<uint32_t>(epoch), static_cast<uint32_t>(size));
      loss_sum = 0;
      seen = 0;
      while (seen < size && (bound == 0 || step < bound)) {
        const int64_t count = std::min(batch_size, size - seen);
        BoundProgram& program = count == batch_size ? *whole : *rest;
        RIVULET_RETURN_IF_ERROR(examples.Decode(
            std::span(order_).subspan(static_cast<size_t>(seen), static_cast<size_t>(count)), program.feeds));
        RIVULET_RETURN_IF_ERROR(train_on(program, count));
      }
    }
    bindings.feeds = {};
    bindings.fetches = {};
    RIVULET_RETURN_IF_ERROR(run(*final_));

    result.examples = size;
    result.steps = static_cast<int64_t>(step);
    result.train_loss = seen > 0 ? loss_sum / static_cast<double>(seen) : 0;
    result.parts = {{"delta", delta_}};
    result.declared = {{"examples", static_cast<double>(size)},
                       {"steps", static_cast<double>(step)},
                       {"train_loss", result.train_loss}};
    result.train_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    RIVULET_VLOG(1, "client '{}': {} steps over {} examples from round {}, loss {:.4f}, {:.3f} s", client_id, step,
                 size, task.base_version, result.train_loss, result.train_seconds);
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<BoundProgram>> Bind(StatusOr<std::shared_ptr<const Program>> program) {
    RIVULET_RETURN_IF_ERROR(program.status());
    auto bound = std::make_unique<BoundProgram>();
    bound->program = *std::move(program);
    RIVULET_ASSIGN_OR_RETURN(bound->instance, bound->program->Instantiate());
    const std::vector<FeedSpec>& feeds = bound->program->signature().feeds;
    for (size_t i = 0; i < feeds.size(); ++i) {
      TensorView& view = bound->feeds.emplace_back(TensorView{nullptr, feeds[i].spec.dtype, feeds[i].spec.shape});
      // A larger buffer has another address, so programs that were bound to the smaller one are told.
      if (view.bytes() > feeds_[i].size()) {
        RIVULET_ASSIGN_OR_RETURN(feeds_[i], AlignedBuffer::Create(view.bytes()));
        for (auto& [batch_size, step] : steps_) {
          if (step != nullptr) step->feeds[i].data = feeds_[i].data();
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

  StatusOr<BoundProgram*> StepProgram(int64_t batch_size) {
    std::unique_ptr<BoundProgram>& step = steps_[batch_size];
    if (step == nullptr) {
      RIVULET_ASSIGN_OR_RETURN(step, Bind(programs_->Step(batch_size)));
    }
    return step.get();
  }

  // Puts a batch of the plan's input into the feeds of the program of its size.
  StatusOr<std::pair<BoundProgram*, int64_t>> Feed(Element& batch) {
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
    if (!steps_.contains(count) && steps_.size() >= kMostBatchSizes)
      return ResourceExhausted("the input of plan '{}' gives batches of more than {} different sizes", plan_.name(),
                               kMostBatchSizes);
    RIVULET_ASSIGN_OR_RETURN(BoundProgram* const program, StepProgram(count));
    for (size_t i = 0; i < components.size(); ++i)
      std::memcpy(program->feeds[i].data, components[i].tensor().data(), program->feeds[i].bytes());
    return std::pair(program, count);
  }

  void ShuffleInto(std::vector<uint32_t>& order, const Task& task, uint32_t epoch, uint32_t size) {
    if (plan_.shuffle()) {
      Draws draws(StreamFor(task.stream_key, Purpose::kShuffle, static_cast<uint32_t>(task.base_version), task.ordinal),
                  epoch);
      order = Permutation(draws, size);
    } else {
      order.resize(size);
      std::iota(order.begin(), order.end(), 0u);
    }
  }

  const std::shared_ptr<ProgramCache> programs_;
  const Plan& plan_;
  StepMonitor* const monitor_;
  const LoopBudget loops_;
  std::vector<AlignedBuffer> memory_;  // by TrainingBuffer
  std::vector<Buffer> buffers_;
  std::vector<AlignedBuffer> feeds_;                 // of the largest batch so far; smaller ones use their front
  AlignedBuffer arena_;                              // of the largest program; all share it
  std::shared_ptr<const ModelLayout> known_layout_;  // equal to the plan's
  std::vector<FloatRun> delta_;                      // the update buffer without its padding: wire order
  std::vector<uint32_t> order_;
  RunObserver* observer_ = nullptr;
  std::unique_ptr<BoundProgram> init_, final_;
  std::map<int64_t, std::unique_ptr<BoundProgram>> steps_;  // by batch size
};

}  // namespace

StatusOr<std::unique_ptr<Trainer>> Trainer::Create(std::shared_ptr<ProgramCache> programs, StepMonitor* monitor,
                                                   LoopBudget loops) {
  EnterWorkerThread();
  auto trainer = std::make_unique<LocalTrainer>(std::move(programs), monitor, loops);
  RIVULET_RETURN_IF_ERROR(trainer->Initialise());
  return std::unique_ptr<Trainer>(std::move(trainer));
}

}  // namespace rivulet
