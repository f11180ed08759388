// Kernels that run programs: the functions of a call, of If and Case and of While, compiled for the node's shapes.
// Their arenas are in the node's scratch, so memory is planned before the first step for any nesting.
#include <algorithm>
#include <chrono>

#include "engine/compile/function_program.h"
#include "engine/program/function_site.h"
#include "engine/program/memory_plan.h"
#include "engine/program/pass_options.h"
#include "engine/tensor/spec_bytes.h"

namespace rivulet {
namespace {

// Information that these kernels derive from their node.
struct Site {
  FunctionCall call;
  std::vector<const Function*> functions;
  std::vector<KnownArgument> arguments;
  std::vector<int> inputs;   // per argument: its index in KernelContext::inputs, -1 for a variable's handle
  std::vector<int> handles;  // per variable: a number, equal for equal variables
  CompileOptions options;

  StatusOr<FunctionProgram> Compile(size_t function, const std::vector<bool>& wanted = {}) const {
    StatusOr<FunctionProgram> program = CompileFunction(*functions[function], arguments, handles, wanted, options);
    if (!program.ok()) return Annotate(program.status(), call.roles[function]);
    return program;
  }
};

StatusOr<Site> MakeSite(const NodeView& view, const KernelPolicy& policy) {
  if (view.graph == nullptr) return FailedPrecondition("a node that runs functions is prepared without its graph");
  Site site;
  site.call = DescribeFunctionCall(view.node.type(), view.node.attrs());
  RIVULET_ASSIGN_OR_RETURN(site.functions, FindFunctions(site.call, FunctionsOf(*view.graph)));
  site.options.kernels = policy;
  if (view.passes != nullptr) site.options.passes = *view.passes;
  int input = 0, variable = 0;
  std::vector<std::string> known;
  for (size_t i = 0; i < view.node.inputs().size(); ++i) {
    const Output given = view.node.inputs()[i];
    KnownArgument argument;
    int place = -1;
    if (given.dtype() == DType::kResource) {
      const TensorSpec& bound = view.variables[static_cast<size_t>(variable)];
      argument.spec = {DType::kResource, bound.shape};
      argument.variable = bound.dtype;
      const std::string key = HandleName(given, *view.graph);
      int same = variable;
      for (size_t earlier = 0; earlier < known.size(); ++earlier)
        if (!key.empty() && known[earlier] == key) same = std::min(same, static_cast<int>(earlier));
      known.push_back(key);
      site.handles.push_back(same);
      ++variable;
    } else {
      argument.spec = view.inputs[static_cast<size_t>(input)];
      argument.value = view.constants[static_cast<size_t>(input)];
      place = input++;
    }
    if (i < site.call.first_argument) continue;
    site.arguments.push_back(std::move(argument));
    site.inputs.push_back(place);
  }
  return site;
}

// One of several functions, chosen by the first input; a call has only one.
class BranchKernel final : public Kernel {
 public:
  static StatusOr<Prepared> Prepare(const NodeView& view, const KernelPolicy& policy) {
    auto kernel = std::make_unique<BranchKernel>();
    RIVULET_ASSIGN_OR_RETURN(const Site site, MakeSite(view, policy));
    kernel->kind_ = site.call.kind;
    kernel->inputs_ = site.inputs;
    kernel->call_ = static_cast<uint32_t>(view.op_index);
    Prepared prepared;
    if (site.call.first_argument > 0) kernel->selector_ = view.inputs[0];
    for (size_t branch = 0; branch < site.functions.size(); ++branch) {
      // Compiles only branches that may run: others may not even be valid for these shapes.
      if (site.call.first_argument > 0 && view.constants[0] != nullptr) {
        const Tensor& value = *view.constants[0];
        if (kernel->Choose(value.data(), site.functions.size()) != branch) {
          kernel->branches_.emplace_back();
          continue;
        }
      }
      RIVULET_ASSIGN_OR_RETURN(FunctionProgram program, site.Compile(branch));
      prepared.scratch_bytes = std::max(prepared.scratch_bytes, program.program->memory().arena_bytes);
      prepared.flops = std::max(prepared.flops, program.program->flops());
      kernel->branches_.push_back(std::move(program));
    }
    prepared.kernel = std::move(kernel);
    prepared.nested = true;
    prepared.implementation = site.call.kind == FunctionCall::Kind::kCall ? "function" : "branches";
    return prepared;
  }

  Status Run(const KernelContext& context) const override {
    State& state = *static_cast<State*>(context.state);
    const size_t branch = kind_ == FunctionCall::Kind::kCall ? 0 : Choose(context.inputs[0], branches_.size());
    if (!state.runs[branch]) return Internal("the branch that was chosen was not compiled");
    for (size_t i = 0; i < inputs_.size(); ++i)
      state.arguments[i] = inputs_[i] < 0 ? nullptr : context.inputs[static_cast<size_t>(inputs_[i])];
    return state.runs[branch]->Run(context, context.scratch, state.arguments, context.outputs, call_, 0);
  }

  std::unique_ptr<KernelState> NewState() const override {
    auto state = std::make_unique<State>();
    for (const FunctionProgram& branch : branches_)
      state->runs.push_back(branch.program == nullptr ? nullptr : std::make_unique<FunctionRun>(branch));
    state->arguments.resize(inputs_.size());
    return state;
  }

 private:
  struct State final : KernelState {
    std::vector<std::unique_ptr<FunctionRun>> runs;
    std::vector<std::byte*> arguments;
  };

  size_t Choose(const std::byte* value, size_t branches) const {
    if (kind_ == FunctionCall::Kind::kIf)
      return TruthOf(selector_.dtype, selector_.shape, value).value_or(false) ? 0 : 1;
    int32_t index;
    std::memcpy(&index, value, sizeof index);
    return BranchOf(index, branches);
  }

  FunctionCall::Kind kind_ = FunctionCall::Kind::kCall;
  TensorSpec selector_;
  std::vector<FunctionProgram> branches_;
  std::vector<int> inputs_;
  uint32_t call_ = 0;
};

// Loop variables alternate between the node's outputs and scratch; variables that the body passes on unchanged stay.
class WhileKernel final : public Kernel {
 public:
  static StatusOr<Prepared> Prepare(const NodeView& view, const KernelPolicy& policy) {
    auto kernel = std::make_unique<WhileKernel>();
    RIVULET_ASSIGN_OR_RETURN(Site site, MakeSite(view, policy));
    kernel->body_name_ = site.functions[1]->name;
    kernel->call_ = static_cast<uint32_t>(view.op_index);
    kernel->inputs_ = site.inputs;
    size_t offset = 64;  // the condition is first
    std::vector<bool> changes;
    for (size_t i = 0; i < site.arguments.size(); ++i) {
      const bool passed = PassedArgument(site.functions[1]->results[i]) == static_cast<int>(i);
      // Facts about a list that hold in all iterations, not only in the first.
      if (site.arguments[i].spec.dtype == DType::kVariant) site.arguments[i].spec.shape = view.outputs[i].shape;
      const TensorSpec& spec = site.arguments[i].spec;
      if (!passed) site.arguments[i].value = nullptr;
      changes.push_back(!passed && spec.dtype != DType::kResource);
      kernel->variables_.push_back({spec.dtype == DType::kResource ? 0 : ValueBytes(spec), offset, changes.back()});
      if (changes.back()) offset += RoundUp64(ValueBytes(spec));
    }
    RIVULET_RETURN_IF_ERROR(kernel->ReadIterationSource(view, site));
    RIVULET_ASSIGN_OR_RETURN(kernel->condition_, site.Compile(0));
    RIVULET_ASSIGN_OR_RETURN(kernel->body_, site.Compile(1, changes));
    kernel->condition_spec_ = kernel->condition_.program->fetch_specs()[0];
    if (ValueBytes(kernel->condition_spec_) > 64)  // not a scalar: only its size matters
      return Unimplemented("the condition '{}' gives {}{}; a loop needs a scalar", site.functions[0]->name,
                           Name(kernel->condition_spec_.dtype), kernel->condition_spec_.shape.ToString());
    kernel->arena_offset_ = offset;
    Prepared prepared;
    prepared.scratch_bytes = offset + std::max(kernel->condition_.program->memory().arena_bytes,
                                               kernel->body_.program->memory().arena_bytes);
    prepared.kernel = std::move(kernel);
    prepared.nested = true;
    prepared.implementation = "loop";
    return prepared;
  }

  Status Run(const KernelContext& context) const override {
    State& state = *static_cast<State*>(context.state);
    const size_t count = inputs_.size();
    for (size_t i = 0; i < count; ++i)
      state.now[i] = inputs_[i] < 0 ? nullptr : context.inputs[static_cast<size_t>(inputs_[i])];
    std::byte* const condition = context.scratch;
    std::byte* const arena = context.scratch + arena_offset_;
    for (uint64_t iteration = 0;; ++iteration) {
      const uint64_t place = iteration_source_ < 0 ? iteration : Stated(state.now);
      Status status = state.condition.Run(context, arena, state.now, {&condition, 1}, call_, place, 1);
      if (!status.ok()) [[unlikely]]
        return Annotate(status, fmt::format("the condition before iteration {}", iteration));
      if (!TruthOf(condition_spec_.dtype, condition_spec_.shape, condition).value_or(false)) break;
      RIVULET_RETURN_IF_ERROR(Spend(context.run, iteration));
      for (size_t i = 0; i < count; ++i)
        if (variables_[i].changes)
          state.next[i] = iteration % 2 == 0 ? context.outputs[i] : context.scratch + variables_[i].offset;
      status = state.body.Run(context, arena, state.now, state.next, call_, place);
      if (!status.ok()) [[unlikely]]
        return Annotate(status, fmt::format("iteration {} of '{}'", iteration, body_name_));
      for (size_t i = 0; i < count; ++i)
        if (variables_[i].changes) state.now[i] = state.next[i];
    }
    for (size_t i = 0; i < count; ++i)
      if (variables_[i].bytes > 0 && state.now[i] != context.outputs[i])
        std::memcpy(context.outputs[i], state.now[i], variables_[i].bytes);
    return {};
  }

  std::unique_ptr<KernelState> NewState() const override {
    return std::make_unique<State>(condition_, body_, inputs_.size());
  }

 private:
  struct LoopVariable {
    size_t bytes = 0;
    size_t offset = 0;  // of every second value, in the scratch
    bool changes = false;
  };
  struct State final : KernelState {
    State(const FunctionProgram& condition_program, const FunctionProgram& body_program, size_t variables)
        : condition(condition_program), body(body_program), now(variables), next(variables) {}
    FunctionRun condition, body;
    std::vector<std::byte*> now, next;
  };

  // Reads the attribute "_iteration_from": the loop variable, an integer scalar, with the number of the iteration whose
  // random numbers this one draws. A loop's backward pass counts down and repeats the draws of the forward pass.
  Status ReadIterationSource(const NodeView& view, const Site& site) {
    const int64_t* source = view.node.FindAttr<int64_t>("_iteration_from");
    if (source == nullptr) return {};
    if (*source < 0 || *source >= static_cast<int64_t>(site.arguments.size()))
      return InvalidArgument("_iteration_from names loop variable {}, but there are {}", *source,
                             site.arguments.size());
    const TensorSpec& spec = site.arguments[static_cast<size_t>(*source)].spec;
    if ((spec.dtype != DType::kInt32 && spec.dtype != DType::kInt64) || spec.shape.rank() != 0)
      return InvalidArgument("_iteration_from names loop variable {}, which is {}{} and no integer scalar", *source,
                             Name(spec.dtype), spec.shape.ToString());
    iteration_source_ = static_cast<int>(*source);
    iteration_is_64_bits_ = spec.dtype == DType::kInt64;
    return {};
  }
  uint64_t Stated(const std::vector<std::byte*>& now) const {
    const std::byte* at = now[static_cast<size_t>(iteration_source_)];
    int32_t narrow = 0;
    int64_t wide = 0;
    if (iteration_is_64_bits_)
      std::memcpy(&wide, at, sizeof wide);
    else
      std::memcpy(&narrow, at, sizeof narrow);
    return static_cast<uint64_t>(iteration_is_64_bits_ ? wide : narrow);
  }

  // Charges one more iteration to the run's limits.
  Status Spend(RunContext* run, uint64_t done) const {
    if (run == nullptr) return {};
    if (run->cancel.cancelled()) [[unlikely]]
      return Cancelled("the run was cancelled after {} iterations", done);
    if (run->loop_steps_left == 0) [[unlikely]]
      return ResourceExhausted(
          "the loop has not ended after {} iterations, and the run may make no more (max_loop_steps); correct the "
          "condition, or raise the bound",
          done);
    if (run->loop_steps_left > 0) --run->loop_steps_left;
    if (run->deadline != std::chrono::steady_clock::time_point::max() &&
        std::chrono::steady_clock::now() >= run->deadline) [[unlikely]]
      return DeadlineExceeded(
          "the loop has not ended after {} iterations, and the run's deadline has passed; correct the condition, or "
          "allow more time",
          done);
    return {};
  }

  std::string body_name_;
  FunctionProgram condition_, body_;
  TensorSpec condition_spec_;
  std::vector<int> inputs_;
  std::vector<LoopVariable> variables_;
  size_t arena_offset_ = 0;
  uint32_t call_ = 0;
  int iteration_source_ = -1;
  bool iteration_is_64_bits_ = false;
};

RIVULET_KERNEL("PartitionedCall", Device::kCpu, void, BranchKernel::Prepare);
RIVULET_KERNEL("StatefulPartitionedCall", Device::kCpu, void, BranchKernel::Prepare);
RIVULET_KERNEL("If", Device::kCpu, void, BranchKernel::Prepare);
RIVULET_KERNEL("StatelessIf", Device::kCpu, void, BranchKernel::Prepare);
RIVULET_KERNEL("Case", Device::kCpu, void, BranchKernel::Prepare);
RIVULET_KERNEL("StatelessCase", Device::kCpu, void, BranchKernel::Prepare);
RIVULET_KERNEL("While", Device::kCpu, void, WhileKernel::Prepare);
RIVULET_KERNEL("StatelessWhile", Device::kCpu, void, WhileKernel::Prepare);

}  // namespace
}  // namespace rivulet
