// Optionals: tensor lists with one element or none.
#include <cstring>

#include "engine/kernels/cpu/strided/elementwise.h"
#include "engine/program/kernel.h"
#include "engine/program/tensor_list.h"
#include "engine/tensor/spec_bytes.h"

namespace rivulet {
namespace {

enum class Action { kFromValue, kNone, kHasValue, kGetValue };

class OptionalKernel final : public Kernel {
 public:
  OptionalKernel(Action action, DType dtype, size_t bytes) : action_(action), dtype_(dtype), bytes_(bytes) {}
  Status Run(const KernelContext& context) const override {
    switch (action_) {
      case Action::kFromValue:
        return FromValue(context);
      case Action::kNone:
        TensorListStore::ToHandle(nullptr, context.outputs[0]);
        return absl::OkStatus();
      case Action::kHasValue:
        *OutputOf<bool>(context, 0) = TensorListStore::Length(TensorListStore::FromHandle(context.inputs[0])) > 0;
        return absl::OkStatus();
      case Action::kGetValue:
        return GetValue(context);
    }
    return absl::OkStatus();
  }

 private:
  Status FromValue(const KernelContext& context) const {
    if (context.run == nullptr || context.run->lists == nullptr)
      return Internal("an optional is made outside of a program");
    TensorListStore& store = *context.run->lists;
    RIVULET_ASSIGN_OR_RETURN(const TensorList* list, store.Create(dtype_, 0));
    std::byte* element = nullptr;
    RIVULET_ASSIGN_OR_RETURN(list, store.Push(list, dtype_, bytes_, &element));
    if (bytes_ > 0) std::memcpy(element, context.inputs[0], bytes_);
    TensorListStore::ToHandle(list, context.outputs[0]);
    return absl::OkStatus();
  }

  Status GetValue(const KernelContext& context) const {
    const TensorList* list = TensorListStore::FromHandle(context.inputs[0]);
    if (TensorListStore::Length(list) != 1) return InvalidArgument("the optional holds no value");
    if (TensorListStore::ElementType(list) != dtype_ || TensorListStore::ElementBytes(list) != bytes_)
      return InvalidArgument("the optional holds {} in {} bytes, and {} in {} bytes was asked for",
                             Name(TensorListStore::ElementType(list)), TensorListStore::ElementBytes(list),
                             Name(dtype_), bytes_);
    if (bytes_ > 0) std::memcpy(context.outputs[0], TensorListStore::Get(list, 0), bytes_);
    return absl::OkStatus();
  }

  Action action_;
  DType dtype_;
  size_t bytes_;
};

StatusOr<Prepared> PrepareOptional(const NodeView& node, const KernelPolicy&) {
  const std::string_view op = node.node.type();
  const Action action = op == "OptionalFromValue"  ? Action::kFromValue
                        : op == "OptionalNone"     ? Action::kNone
                        : op == "OptionalHasValue" ? Action::kHasValue
                                                   : Action::kGetValue;
  const TensorSpec value = action == Action::kFromValue  ? node.inputs[0]
                           : action == Action::kGetValue ? node.outputs[0]
                                                         : TensorSpec{DType::kVariant, Shape{}};
  Prepared prepared;
  prepared.kernel = std::make_unique<OptionalKernel>(action, value.dtype, ValueBytes(value));
  prepared.nested = true;
  prepared.implementation = "list";
  return prepared;
}
RIVULET_KERNEL("OptionalFromValue", Device::kCpu, void, PrepareOptional);
RIVULET_KERNEL("OptionalNone", Device::kCpu, void, PrepareOptional);
RIVULET_KERNEL("OptionalHasValue", Device::kCpu, void, PrepareOptional);
RIVULET_KERNEL("OptionalGetValue", Device::kCpu, void, PrepareOptional);

}  // namespace
}  // namespace rivulet
