#include "federated/plan/base_values.h"

#include <utility>

namespace rivulet {
namespace {

constexpr uintptr_t kVariableAlignment = 64;  // required by kernels

}  // namespace

StatusOr<std::shared_ptr<const BaseValues>> BaseValues::Of(std::shared_ptr<const Base> base,
                                                           const ModelLayout& layout) {
  if (!layout.base()) return InvalidArgument("the model has no base, and '{}' was given", base->path());
  RIVULET_RETURN_IF_ERROR(CheckIsBase(*base, *layout.base()));
  std::shared_ptr<BaseValues> values(new BaseValues(std::move(base)));
  for (const VariableSpec& variable : layout.base_variables()) {
    const Base::Tensor* const tensor = values->base_->Find(variable.name);
    if (tensor == nullptr) {
      return InvalidArgument("the base '{}' has no tensor '{}', which the model takes from it", values->base_->path(),
                             variable.name);
    }
    if (tensor->spec != variable.spec) {
      return InvalidArgument("the base '{}' has '{}' as {}{}, and the model's variable is {}{}", values->base_->path(),
                             variable.name, Name(tensor->spec.dtype), tensor->spec.shape.ToString(),
                             Name(variable.spec.dtype), variable.spec.shape.ToString());
    }
    const std::byte* mapped = values->base_->Mapped(*tensor);
    if (reinterpret_cast<uintptr_t>(mapped) % kVariableAlignment != 0) {
      RIVULET_ASSIGN_OR_RETURN(AlignedBuffer copy, AlignedBuffer::Create(tensor->bytes));
      RIVULET_RETURN_IF_ERROR(values->base_->Copy(*tensor, {copy.data(), static_cast<size_t>(tensor->bytes)}));
      values->copies_.push_back(std::move(copy));
      values->copied_bytes_ += static_cast<int64_t>(tensor->bytes);
      mapped = values->copies_.back().data();
    }
    values->buffers_.push_back({const_cast<std::byte*>(mapped), variable.spec.dtype, 0});
  }
  return std::shared_ptr<const BaseValues>(std::move(values));
}

std::vector<VariableBinding> BindVariables(const ModelLayout& layout) {
  std::vector<VariableBinding> variables;
  for (const Slice& slice : layout.slices()) variables.push_back({slice.name, 0, slice.offset, slice.spec});
  int buffer = 1;
  for (const VariableSpec& variable : layout.base_variables())
    variables.push_back({variable.name, buffer++, 0, variable.spec});
  return variables;
}

}  // namespace rivulet
