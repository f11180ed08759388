#include "dataflow/session/variable.h"

#include <atomic>

#include "dataflow/resources/async_op.h"
#include "engine/graph/variable_name.h"

namespace rivulet {
namespace {

// Programs are compiled for variables with values; only the session knows whether a variable has one.
void VarIsInitialized(AsyncContext& context, AsyncDone done) {
  auto& variable = static_cast<VariableResource&>(*context.resources[0]);
  std::shared_lock<std::shared_mutex> lock(variable.mutex());
  const bool initialized = variable.initialized();
  lock.unlock();
  Tensor value(DType::kBool, Shape{});
  value.flat<bool>()[0] = initialized;
  done(std::vector{std::move(value)});
}

RIVULET_ASYNC_OP("VarIsInitializedOp", VarIsInitialized);

}  // namespace

StatusOr<std::shared_ptr<VariableResource>> VariableResource::Create(std::string_view name, const TensorSpec& spec,
                                                                     const std::shared_ptr<MemoryBudget>& memory) {
  static std::atomic<uint64_t> created{0};
  const std::string what = fmt::format("the variable '{}'", name);
  const StatusOr<int64_t> elements = spec.shape.CheckedElements();
  if (!elements.ok()) return Annotate(elements.status(), what);
  if (spec.dtype == DType::kString)
    return Unimplemented("{} is string; variables hold numbers, and tables (HashTableV2) strings", what);
  if (SizeOf(spec.dtype) == 0 || spec.dtype == DType::kVariant)
    return InvalidArgument("{} is {}, which has no values", what, Name(spec.dtype));
  std::shared_ptr<VariableResource> variable(new VariableResource());
  variable->name_ = std::string(name);
  variable->spec_ = spec;
  variable->order_ = ++created;
  RIVULET_ASSIGN_OR_RETURN(variable->storage_,
                           BudgetedBuffer::Create(static_cast<size_t>(*elements) * SizeOf(spec.dtype), memory, what));
  return variable;
}

Status VariableResource::CheckHandle(const Node& handle) const {
  const TensorSpec said{VariableDType(handle), handle.attr<Shape>("shape")};
  if (said.dtype == spec_.dtype && said.shape == spec_.shape) return absl::OkStatus();
  return InvalidArgument("the variable '{}' is both {}{} and {}{}", name_, Name(spec_.dtype), spec_.shape.ToString(),
                         Name(said.dtype), said.shape.ToString());
}

}  // namespace rivulet
