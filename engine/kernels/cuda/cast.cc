// Adapters of cast.cu.
#include "engine/kernels/cuda/cast.h"

#include "engine/kernels/cuda/element_adapter.h"
#include "engine/kernels/cuda/launch.h"

namespace rivulet::gpu {
namespace {

StatusOr<std::string_view> TextOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return kTypeText<float>;
    case DType::kFloat64:
      return kTypeText<double>;
    case DType::kInt32:
      return kTypeText<int32_t>;
    case DType::kInt64:
      return kTypeText<int64_t>;
    case DType::kUint8:
      return kTypeText<uint8_t>;
    case DType::kBool:
      return kTypeText<bool>;
    default:
      return Unimplemented("a cast from or to {} on a GPU; cast on the CPU, before it is fed", Name(dtype));
  }
}

StatusOr<Prepared> PrepareCast(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const std::string_view from, TextOf(node.inputs[0].dtype));
  RIVULET_ASSIGN_OR_RETURN(const std::string_view to, TextOf(node.outputs[0].dtype));
  UnaryArguments arguments{};
  RIVULET_ASSIGN_OR_RETURN(arguments.count, CountOf(node.outputs[0].shape.elements()));
  std::vector<std::pair<int, int>> in_place;
  if (node.inputs[0] == node.outputs[0]) in_place = {{0, 0}};
  Prepared prepared = Launching(
      [kernel = fmt::format("Cast_{}_{}", from, to), arguments](const GpuContext& c) {
        UnaryArguments a = arguments;
        a.x = InputOf<void>(c, 0);
        a.y = OutputOf<void>(c, 0);
        return Put(c, kernel, a);
      },
      0, std::move(in_place));
  // In chains a truth value is 0 or 1, computed as x and x.
  const bool to_bool = node.outputs[0].dtype == DType::kBool;
  return WithElements(std::move(prepared), ElementsOf(node, to_bool ? ElementCode::kLogicalAnd : ElementCode::kCopy));
}

// By name for existing kernels, so that a missing type is reported before the program is lowered.
#define RIVULET_GPU_CAST(From) RIVULET_KERNEL("Cast", Device::kCuda, From, PrepareCast);
RIVULET_GPU_CAST(float)
RIVULET_GPU_CAST(double)
RIVULET_GPU_CAST(int32_t)
RIVULET_GPU_CAST(int64_t)
RIVULET_GPU_CAST(uint8_t)
RIVULET_GPU_CAST(bool)

}  // namespace
}  // namespace rivulet::gpu
