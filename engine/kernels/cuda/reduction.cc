// Adapters of reduction.cu; the gradient of a bias is a sum.
#include "engine/kernels/cuda/reduction.h"

#include "engine/kernels/cpu/reduction/strided_reduce.h"
#include "engine/kernels/cpu/strided/constant_input.h"
#include "engine/kernels/cuda/device_walk.h"
#include "engine/kernels/cuda/launch.h"

namespace rivulet::gpu {
namespace {

// Limit of elements per thread, above which another block is used.
constexpr int32_t kShare = 64;
constexpr int32_t kRowParts = 32, kColumnParts = 8;

StatusOr<Prepared> PrepareReduced(std::span<const int64_t> dims, const std::vector<bool>& reduced, std::string kernel) {
  const Shape input{std::vector<int64_t>(dims.begin(), dims.end())};
  RIVULET_ASSIGN_OR_RETURN(const ReductionPlan plan, PlanReduction(dims, RowMajorStrides(input), reduced));
  int64_t results = 1;
  for (size_t axis = 0; axis < dims.size(); ++axis)
    if (!reduced[axis]) results *= dims[axis];
  ReductionArguments a{};
  RIVULET_RETURN_IF_ERROR(CountOf(input.elements()).status());
  RIVULET_ASSIGN_OR_RETURN(a.results, CountOf(results));
  RIVULET_ASSIGN_OR_RETURN(a.count, CountOf(plan.count));
  a.parts = plan.rows ? kRowParts : kColumnParts;
  a.neighbours = plan.rows ? 0 : 1;
  a.chunk = a.parts * kShare;
  a.chunks = std::max(1, (a.count + a.chunk - 1) / a.chunk);
  RIVULET_ASSIGN_OR_RETURN(a.kept, DeviceWalk(plan.kept));
  RIVULET_ASSIGN_OR_RETURN(a.reduced, DeviceWalk(plan.reduced));
  Prepared prepared = Launching(
      [kernel = std::move(kernel), arguments = a](const GpuContext& c) {
        if (arguments.results == 0) return absl::OkStatus();
        ReductionArguments a = arguments;
        a.x = InputOf<void>(c, 0);
        a.y = OutputOf<void>(c, 0);
        a.partial = SpanOf<uint64_t>(c.scratch);
        RIVULET_RETURN_IF_ERROR(Put(c, kernel, a));
        return a.chunks == 1 ? absl::OkStatus() : Put(c, kernel + "_chunks", a);
      },
      static_cast<double>(input.elements()));
  if (a.chunks > 1) prepared.scratch_bytes = static_cast<size_t>(results) * static_cast<size_t>(a.chunks) * 8;
  return prepared;
}

StatusOr<Prepared> PrepareReduction(const NodeView& node, std::string kernel) {
  const Shape& input = node.inputs[0].shape;
  RIVULET_ASSIGN_OR_RETURN(const auto axes, ConstantInput(node, 1, "the reduced axes"));
  std::vector<bool> reduced(static_cast<size_t>(input.rank()), false);
  for (int64_t axis : axes) reduced[AxisOf(axis, input.rank())] = true;
  return PrepareReduced(input.dims(), reduced, std::move(kernel));
}

StatusOr<Prepared> PrepareWhole(const NodeView& node, std::string kernel) {
  const Shape& input = node.inputs[0].shape;
  return PrepareReduced(input.dims(), std::vector<bool>(static_cast<size_t>(input.rank()), true), std::move(kernel));
}

// A tensor as [outer, channels, inner], reduced to channels.
StatusOr<Prepared> PrepareBiasAddGrad(const NodeView& node, std::string kernel) {
  const Shape& shape = node.inputs[0].shape;
  if (shape.rank() < 2) return InvalidArgument("a bias needs a value of rank 2 or more, not {}", shape.ToString());
  const std::string* format = node.node.FindAttr<std::string>("data_format");
  const int axis = format != nullptr && *format == "NCHW" && shape.rank() > 2 ? 1 : shape.rank() - 1;
  std::vector<bool> reduced(static_cast<size_t>(shape.rank()), true);
  reduced[static_cast<size_t>(axis)] = false;
  return PrepareReduced(shape.dims(), reduced, std::move(kernel));
}

StatusOr<Prepared> PrepareArg(const NodeView& node, std::string_view kernel) {
  const Shape& input = node.inputs[0].shape;
  RIVULET_ASSIGN_OR_RETURN(const int64_t given, ConstantScalar(node, 1, "the dimension"));
  const auto axis = static_cast<int>(AxisOf(given, input.rank()));
  if (input.dim(axis) == 0) return InvalidArgument("axis {} of {} is empty", given, input.ToString());
  int64_t inner = 1;
  for (int i = axis + 1; i < input.rank(); ++i) inner *= input.dim(i);
  ArgArguments arguments{};
  RIVULET_ASSIGN_OR_RETURN(arguments.results, CountOf(input.elements() / input.dim(axis)));
  RIVULET_ASSIGN_OR_RETURN(arguments.size, CountOf(input.dim(axis)));
  arguments.inner = Divider::Of(inner);
  const bool narrow = node.outputs[0].dtype == DType::kInt32;
  return Launching(
      [kernel = fmt::format("{}_{}", kernel, narrow ? "int32_t" : "int64_t"), arguments](const GpuContext& c) {
        ArgArguments a = arguments;
        a.x = InputOf<void>(c, 0);
        a.y = OutputOf<void>(c, 0);
        return Put(c, kernel, a);
      });
}

#define RIVULET_GPU_REDUCTION(R, T)    \
  RIVULET_KERNEL(#R, Device::kCuda, T, \
                 [](const NodeView& node, const KernelPolicy&) { return PrepareReduction(node, #R "_" #T); });
#define RIVULET_GPU_WHOLE(R, T)        \
  RIVULET_KERNEL(#R, Device::kCuda, T, \
                 [](const NodeView& node, const KernelPolicy&) { return PrepareWhole(node, #R "_" #T); });
#define RIVULET_GPU_LOGIC_REDUCTION(R, T) \
  RIVULET_KERNEL(#R, Device::kCuda, void, \
                 [](const NodeView& node, const KernelPolicy&) { return PrepareReduction(node, #R "_" #T); });
#define RIVULET_GPU_BIAS_GRAD(R, T)               \
  RIVULET_KERNEL("BiasAddGrad", Device::kCuda, T, \
                 [](const NodeView& node, const KernelPolicy&) { return PrepareBiasAddGrad(node, #R "_" #T); });
#define RIVULET_GPU_ARG(R, T)          \
  RIVULET_KERNEL(#R, Device::kCuda, T, \
                 [](const NodeView& node, const KernelPolicy&) { return PrepareArg(node, #R "_" #T); });
RIVULET_GPU_REDUCTIONS(RIVULET_GPU_REDUCTION)
RIVULET_GPU_WHOLE_REDUCTIONS(RIVULET_GPU_WHOLE)
RIVULET_GPU_LOGIC_REDUCTIONS(RIVULET_GPU_LOGIC_REDUCTION)
RIVULET_GPU_REDUCED_FLOATS(RIVULET_GPU_BIAS_GRAD, Sum)
RIVULET_GPU_REDUCED_SIGNED(RIVULET_GPU_ARG, ArgMax)
RIVULET_GPU_REDUCED_SIGNED(RIVULET_GPU_ARG, ArgMin)

}  // namespace
}  // namespace rivulet::gpu
