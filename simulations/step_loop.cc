#include "simulations/step_loop.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "client/training/pass_programs.h"
#include "client/training/trainer.h"
#include "engine/base/available_memory.h"
#include "engine/compile/compile.h"
#include "engine/profile/instruction_costs.h"
#include "engine/tensor/spec_bytes.h"
#include "federated/plan/example_source.h"
#include "federated/plan/plan.h"
#include "federated/weights/model.h"

namespace rivulet {
namespace {

std::map<std::string, std::string> SourceLinesOf(const Graph& graph) {
  std::map<std::string, std::string> lines;
  for (const auto& node : graph.nodes())
    if (!node->source_line().empty()) lines[node->name()] = node->source_line();
  return lines;
}

// Numbers in [0, 1), and for integers `bound` classes in turn (0: zeros, which are valid as any index).
void MakeUp(Tensor& tensor, int64_t bound) {
  const auto fill = [&](auto example, auto value) {
    for (size_t i = 0; auto& element : tensor.flat<decltype(example)>()) element = value(i++);
  };
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return fill(0.0f, [](size_t i) { return static_cast<float>(i * 37 % 256) / 256; });
    case DType::kFloat64:
      return fill(0.0, [](size_t i) { return static_cast<double>(i * 37 % 256) / 256; });
    case DType::kInt64:
      return fill(int64_t{0}, [&](size_t i) { return bound > 0 ? static_cast<int64_t>(i) % bound : 0; });
    case DType::kInt32:
      return fill(int32_t{0},
                  [&](size_t i) { return bound > 0 ? static_cast<int32_t>(static_cast<int64_t>(i) % bound) : 0; });
    default:
      return;  // zeros
  }
}

// A client's training step.
class ClientStep final : public StepLoop {
 public:
  Status Initialise(RunSetup& setup, int64_t batch, bool own_data) {
    const Scenario& scenario = setup.scenario();
    RIVULET_ASSIGN_OR_RETURN(const auto model, setup.model());
    source_lines_ = SourceLinesOf(model->graph);
    RIVULET_ASSIGN_OR_RETURN(plan_, setup.plan());
    PassPrograms programs(plan_);
    batch_ = batch;
    RIVULET_ASSIGN_OR_RETURN(PassPrograms::StepGraph described, programs.DescribeStep(TaskKind::kTrain, 0, batch_));
    graph_ = std::move(described.graph);
    RIVULET_ASSIGN_OR_RETURN(auto program, programs.Step(TaskKind::kTrain, 0, batch_));
    std::vector<AlignedBuffer> memory;
    const BufferTable& table = programs.buffers();
    for (int i = 0; i < table.size(); ++i) memory.emplace_back(table.bytes(i));
    RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<Model> first, InitialModel(*plan_, scenario.run.seed));
    for (const int buffer : {BufferTable::kParams, BufferTable::kBaseParams})
      std::memcpy(memory[static_cast<size_t>(buffer)].data(), first->arena().data(), first->arena().size());
    RIVULET_ASSIGN_OR_RETURN(const std::span<const Buffer> of_base, plan_->base_buffers());
    for (size_t i = 0; i < of_base.size(); ++i) {
      AlignedBuffer& to = memory[static_cast<size_t>(table.base(i))];
      std::memcpy(to.data(), of_base[i].data, to.size());
    }
    RIVULET_RETURN_IF_ERROR(Bind(std::move(program), std::move(memory)));
    title_ = fmt::format("{}, training step, batch {}", scenario.run.name, batch_);

    // State that a rule keeps over steps gets its initial values, as at the start of a task.
    RIVULET_ASSIGN_OR_RETURN(const auto begin, programs.Begin(TaskKind::kTrain, 0));
    if (begin != nullptr) {
      RIVULET_ASSIGN_OR_RETURN(const auto instance, begin->Instantiate());
      AlignedBuffer arena(begin->memory().arena_bytes);
      Bindings bindings;
      bindings.arena = arena.data();
      bindings.buffers = buffers_;
      bindings.rng = {&rng_, 1};
      bindings.step = {&step_, 1};
      RIVULET_RETURN_IF_ERROR(instance->Run(bindings));
    }
    if (own_data) return OpenData(setup);
    data_ = "made-up data";
    for (size_t i = 0; i < feed_tensors_.size(); ++i) MakeUp(feed_tensors_[i], plan_->features()[i].upper_bound);
    return absl::OkStatus();
  }

  Status Feed(int64_t step) override {
    if (examples_ == nullptr) return absl::OkStatus();
    for (size_t i = 0; i < order_.size(); ++i)
      order_[i] = static_cast<uint32_t>((step * batch_ + static_cast<int64_t>(i)) % examples_->size());
    return examples_->Decode(order_, feeds_);
  }

 private:
  Status OpenData(RunSetup& setup) {
    const std::string& file = setup.scenario().data.train;
    RIVULET_ASSIGN_OR_RETURN(const auto dataset, setup.training_data());
    if (dataset->size() == 0) return InvalidArgument("{} has no examples", file);
    RIVULET_ASSIGN_OR_RETURN(const auto decoder, ExampleDecoder::Create(plan_->features()));
    examples_ = std::make_unique<DatasetExamples>(dataset, std::nullopt, decoder);
    order_.resize(static_cast<size_t>(batch_));
    data_ = fmt::format("data of {}", file);
    return absl::OkStatus();
  }

  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<DatasetExamples> examples_;
  int64_t batch_ = 1;
  std::vector<uint32_t> order_;
};

class GraphStep final : public StepLoop {
 public:
  Status Initialise(std::string title, Graph graph, const Signature& signature, const KernelPolicy& kernels) {
    title_ = std::move(title);
    data_ = "made-up data and variables";
    graph_ = std::move(graph);
    source_lines_ = SourceLinesOf(graph_);
    RIVULET_ASSIGN_OR_RETURN(auto program, CompileProgram(graph_, signature, {kernels, {}}));
    std::vector<size_t> bytes;
    for (const VariableBinding& variable : signature.variables) {
      const size_t buffer = static_cast<size_t>(variable.buffer);
      if (bytes.size() <= buffer) bytes.resize(buffer + 1, 0);
      bytes[buffer] = std::max(bytes[buffer], variable.offset + static_cast<size_t>(variable.spec.shape.elements()) *
                                                                    SizeOf(variable.spec.dtype));
    }
    std::vector<AlignedBuffer> memory;
    for (const size_t size : bytes) {
      RIVULET_ASSIGN_OR_RETURN(AlignedBuffer buffer, AlignedBuffer::Create(size));
      memory.push_back(std::move(buffer));
    }
    // Small numbers: sums stay finite whatever the graph computes.
    for (const VariableBinding& variable : signature.variables) {
      if (variable.spec.dtype != DType::kFloat32) continue;
      auto* values = reinterpret_cast<float*>(memory[static_cast<size_t>(variable.buffer)].data() + variable.offset);
      for (int64_t i = 0; i < variable.spec.shape.elements(); ++i)
        values[i] = static_cast<float>(i * 37 % 256) / 2560 - 0.04f;
    }
    RIVULET_RETURN_IF_ERROR(Bind(std::move(program), std::move(memory)));
    for (Tensor& tensor : feed_tensors_) MakeUp(tensor, 0);
    return absl::OkStatus();
  }
  Status Feed(int64_t) override { return absl::OkStatus(); }
};

// Checked for all buffers together, before the first is allocated.
Status CheckFits(const Program& program) {
  size_t feeds = 0, fetches = 0;
  std::string largest;
  size_t largest_bytes = 0;
  for (const FeedSpec& feed : program.signature().feeds) {
    feeds += TensorBytes(feed.spec);
    if (TensorBytes(feed.spec) > largest_bytes) {
      largest_bytes = TensorBytes(feed.spec);
      largest = fmt::format("; the largest input is '{}', {}{}", feed.tensor, Name(feed.spec.dtype),
                            feed.spec.shape.ToString());
    }
  }
  for (const TensorSpec& spec : program.fetch_specs()) fetches += TensorBytes(spec);
  const size_t arena = program.memory().arena_bytes, left = AvailableMemory();
  if (feeds + fetches + arena <= left) return absl::OkStatus();
  return ResourceExhausted("a step needs {} bytes ({} of inputs, {} of outputs, {} in between), and {} are available{}",
                           feeds + fetches + arena, feeds, fetches, arena, left, largest);
}

}  // namespace

std::string StepLoop::SourceLine(const std::string& node) const {
  const auto found = source_lines_.find(ForwardNodeOf(node));
  return found == source_lines_.end() ? "" : found->second;
}

Status StepLoop::Bind(std::shared_ptr<const Program> program, std::vector<AlignedBuffer> memory) {
  program_ = std::move(program);
  memory_ = std::move(memory);
  RIVULET_RETURN_IF_ERROR(CheckFits(*program_));
  RIVULET_ASSIGN_OR_RETURN(instance_, program_->Instantiate());
  RIVULET_ASSIGN_OR_RETURN(arena_, AlignedBuffer::Create(program_->memory().arena_bytes));
  for (AlignedBuffer& buffer : memory_) buffers_.push_back({buffer.data()});
  for (const FeedSpec& feed : program_->signature().feeds) {
    RIVULET_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(feed.spec.dtype, feed.spec.shape));
    feed_tensors_.push_back(std::move(tensor));
  }
  for (const TensorSpec& spec : program_->fetch_specs()) {
    RIVULET_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(spec.dtype, spec.shape));
    fetch_tensors_.push_back(std::move(tensor));
  }
  for (const Tensor& tensor : feed_tensors_) feeds_.push_back(tensor.view());
  for (const Tensor& tensor : fetch_tensors_) fetches_.push_back(tensor.view());
  bindings_.arena = arena_.data();
  bindings_.buffers = buffers_;
  bindings_.feeds = feeds_;
  bindings_.fetches = fetches_;
  bindings_.rng = {&rng_, 1};
  bindings_.step = {&step_, 1};
  return absl::OkStatus();
}

StatusOr<std::unique_ptr<StepLoop>> MakeClientStepLoop(RunSetup& setup, int64_t batch, bool own_data) {
  EnterWorkerThread();
  auto loop = std::make_unique<ClientStep>();
  RIVULET_RETURN_IF_ERROR(loop->Initialise(setup, batch, own_data));
  return std::unique_ptr<StepLoop>(std::move(loop));
}

StatusOr<std::unique_ptr<StepLoop>> MakeGraphStepLoop(std::string title, Graph graph, const Signature& signature,
                                                      const KernelPolicy& kernels) {
  EnterWorkerThread();
  auto loop = std::make_unique<GraphStep>();
  RIVULET_RETURN_IF_ERROR(loop->Initialise(std::move(title), std::move(graph), signature, kernels));
  return std::unique_ptr<StepLoop>(std::move(loop));
}

}  // namespace rivulet
