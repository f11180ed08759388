#include "engine/compile/function_program.h"

#include <algorithm>

#include "engine/compile/compile.h"
#include "engine/program/function_site.h"
#include "engine/tensor/spec_bytes.h"

namespace rivulet {
namespace {

// Purposes (StreamKey::purpose) of derived keys: those of clients and servers count from 0.
constexpr uint8_t kBodyPurpose = 0xFF, kConditionPurpose = 0xFE;

}  // namespace

StatusOr<FunctionProgram> CompileFunction(const Function& function, std::span<const KnownArgument> arguments,
                                          std::span<const int> handles, const std::vector<bool>& wanted,
                                          const CompileOptions& options) {
  FunctionProgram made;
  // A variable that is passed twice is one buffer: reads and writes through either handle must see each other, and the
  // compiler sees hazards by buffer and range.
  for (size_t i = 0; i < handles.size(); ++i) {
    const auto first = std::ranges::find(handles.first(i), handles[i]);
    made.variables.push_back(first == handles.begin() + static_cast<std::ptrdiff_t>(i)
                                 ? static_cast<int>(i)
                                 : static_cast<int>(first - handles.begin()));
  }
  RIVULET_ASSIGN_OR_RETURN(FunctionSite site, MakeFunctionSite(function, arguments, made.variables, wanted));
  CompileOptions inner = options;
  inner.passes.memory_budget_bytes = 0;  // the budget is the whole program's
  StatusOr<std::shared_ptr<const Program>> program = CompileProgram(site.body, site.signature, inner);
  if (!program.ok()) return Annotate(program.status(), fmt::format("function '{}'", function.name));
  made.program = *std::move(program);
  made.feeds = std::move(site.feeds);
  made.fetches = std::move(site.fetches);
  const FunctionEffects effects = EffectsOf(function);
  made.draws = effects.draws;
  made.writes = std::ranges::find(effects.writes, true) != effects.writes.end();
  return made;
}

FunctionRun::FunctionRun(const FunctionProgram& function)
    : function_(function), instance_(function.program->Instantiate()) {
  const Signature& signature = function.program->signature();
  for (const FeedSpec& feed : signature.feeds) feeds_.push_back({nullptr, feed.spec.dtype, feed.spec.shape});
  for (const TensorSpec& fetch : function.program->fetch_specs())
    fetches_.push_back({nullptr, fetch.dtype, fetch.shape});
  for (const VariableBinding& variable : signature.variables) {
    if (buffers_.size() <= static_cast<size_t>(variable.buffer))
      buffers_.resize(static_cast<size_t>(variable.buffer) + 1);
    buffers_[static_cast<size_t>(variable.buffer)].dtype = variable.spec.dtype;
  }
}

// A fault that the compiler cannot see: variables with different names whose memory overlaps, such as a flat vector
// and its slice. In the function they are different buffers, so a view of one would become stale when the other is
// written.
Status FunctionRun::CheckAliases(const KernelContext& context) const {
  const auto& variables = function_.program->signature().variables;
  for (size_t i = 0; i < variables.size(); ++i) {
    const std::byte* begin = context.variables[i];
    const TensorSpec& spec = variables[i].spec;
    const std::byte* end = begin + TensorBytes(spec);
    for (size_t j = 0; j < i; ++j) {
      if (variables[i].buffer == variables[j].buffer) continue;
      const std::byte* other = context.variables[j];
      const TensorSpec& other_spec = variables[j].spec;
      if (begin < other + TensorBytes(other_spec) && other < end)
        return InvalidArgument("{} and {} are variables that overlap, and the function changes one of them",
                               variables[j].name, variables[i].name);
    }
  }
  return {};
}

Status FunctionRun::Run(const KernelContext& context, std::byte* arena, std::span<std::byte* const> arguments,
                        std::span<std::byte* const> results, uint32_t call, uint64_t iteration, int part) {
  RIVULET_RETURN_IF_ERROR(instance_.status());
  // Addresses of variables do not change between the iterations of a loop.
  if (function_.writes && iteration == 0) RIVULET_RETURN_IF_ERROR(CheckAliases(context));
  for (size_t i = 0; i < feeds_.size(); ++i) feeds_[i].data = arguments[static_cast<size_t>(function_.feeds[i])];
  for (size_t i = 0; i < fetches_.size(); ++i) fetches_[i].data = results[static_cast<size_t>(function_.fetches[i])];
  for (size_t i = 0; i < function_.variables.size(); ++i)
    buffers_[static_cast<size_t>(function_.variables[i])].data = context.variables[i];
  Bindings bindings;
  bindings.arena = arena;
  bindings.buffers = buffers_;
  bindings.feeds = feeds_;
  bindings.fetches = fetches_;
  bindings.step = {&context.step, 1};
  StreamKey stream;
  if (function_.draws && context.rng != nullptr) {
    stream = StreamOfCall(*context.rng, call, iteration, part);
    bindings.rng = {&stream, 1};
  }
  bindings.outer = context.run;
  return (*instance_)->Run(bindings, context.run == nullptr ? CancellationToken() : context.run->cancel);
}

// The iteration is part of the counter and the call part of the index. So any iteration's numbers can be drawn without
// earlier ones: the gradient of a loop runs backwards and repeats the draws of the forward iteration.
StreamKey StreamOfCall(const StreamKey& outer, uint32_t call, uint64_t iteration, int part) {
  StreamKey counter = outer;
  counter.purpose = part == 0 ? kBodyPurpose : kConditionPurpose;
  const PhiloxBlock block = counter.Block(iteration, call);
  StreamKey inner = outer;
  inner.key.words = {block[0], block[1]};
  return inner;
}

}  // namespace rivulet
