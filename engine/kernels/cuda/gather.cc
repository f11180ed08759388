// Adapters of gather.cu.
#include "engine/kernels/cuda/gather.h"

#include "engine/kernels/cpu/strided/constant_input.h"
#include "engine/kernels/cuda/launch.h"

namespace rivulet::gpu {
namespace {

int64_t Product(const Shape& shape, int begin, int end) {
  int64_t product = 1;
  for (int axis = begin; axis < end; ++axis) product *= shape.dim(axis);
  return product;
}

StatusOr<Prepared> Gathering(const NodeView& node, int axis, int64_t batch_dims) {
  const Shape &params = node.inputs[0].shape, &indices = node.inputs[1].shape;
  const int batch = static_cast<int>(batch_dims < 0 ? batch_dims + indices.rank() : batch_dims);
  GatherArguments arguments{};
  RIVULET_ASSIGN_OR_RETURN(arguments.count, CountOf(node.outputs[0].shape.elements()));
  RIVULET_RETURN_IF_ERROR(CountOf(params.elements()).status());
  arguments.size = params.dim(axis);
  arguments.outer = Divider::Of(Product(params, batch, axis));
  arguments.inner = Divider::Of(Product(params, axis + 1, params.rank()));
  arguments.index_count = Divider::Of(Product(indices, batch, indices.rank()));
  arguments.wide = node.inputs[1].dtype == DType::kInt64 ? 1 : 0;
  return Launching(
      [kernel = fmt::format("gather_uint{}_t", 8 * SizeOf(node.outputs[0].dtype)), arguments](const GpuContext& c) {
        GatherArguments a = arguments;
        a.params = InputOf<void>(c, 0);
        a.indices = InputOf<void>(c, 1);
        a.out = OutputOf<void>(c, 0);
        return Put(c, kernel, a);
      });
}

StatusOr<Prepared> PrepareGatherV2(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const int64_t given, ConstantScalar(node, 2, "the axis"));
  return Gathering(node, static_cast<int>(AxisOf(given, node.inputs[0].shape.rank())),
                   node.attr<int64_t>("batch_dims"));
}
StatusOr<Prepared> PrepareGather(const NodeView& node, const KernelPolicy&) { return Gathering(node, 0, 0); }

template <typename T>
StatusOr<Prepared> PrepareSegmentSum(const NodeView& node, const KernelPolicy&) {
  const Shape &data = node.inputs[0].shape, &ids = node.inputs[1].shape;
  SegmentSumArguments arguments{};
  RIVULET_RETURN_IF_ERROR(CountOf(data.elements()).status());
  RIVULET_ASSIGN_OR_RETURN(arguments.count, CountOf(node.outputs[0].shape.elements()));
  RIVULET_ASSIGN_OR_RETURN(arguments.id_count, CountOf(ids.elements()));
  arguments.inner = Divider::Of(Product(data, ids.rank(), data.rank()));
  arguments.wide = node.inputs[1].dtype == DType::kInt64 ? 1 : 0;
  return Launching(
      [arguments](const GpuContext& c) {
        SegmentSumArguments a = arguments;
        a.data = InputOf<void>(c, 0);
        a.ids = InputOf<void>(c, 1);
        a.out = OutputOf<void>(c, 0);
        return Put(c, fmt::format("segment_sum_{}", kTypeText<T>), a);
      },
      static_cast<double>(data.elements()));
}

StatusOr<Prepared> PrepareOneHot(const NodeView& node, const KernelPolicy&) {
  const Shape &indices = node.inputs[0].shape, &output = node.outputs[0].shape;
  if (SizeOf(node.inputs[0].dtype) < 4)
    return Unimplemented("OneHot of {} indices on a GPU; cast them to int32", Name(node.inputs[0].dtype));
  const auto axis = static_cast<int>(AxisOf(node.attr<int64_t>("axis"), output.rank()));
  OneHotArguments arguments{};
  RIVULET_ASSIGN_OR_RETURN(arguments.count, CountOf(output.elements()));
  arguments.depth = Divider::Of(output.dim(axis));
  arguments.inner = Divider::Of(Product(indices, axis, indices.rank()));
  arguments.wide = node.inputs[0].dtype == DType::kInt64 ? 1 : 0;
  return Launching(
      [kernel = fmt::format("one_hot_uint{}_t", 8 * SizeOf(node.outputs[0].dtype)), arguments](const GpuContext& c) {
        OneHotArguments a = arguments;
        a.indices = InputOf<void>(c, 0);
        a.on = InputOf<void>(c, 2);
        a.off = InputOf<void>(c, 3);
        a.out = OutputOf<void>(c, 0);
        return Put(c, kernel, a);
      });
}

RIVULET_KERNEL("GatherV2", Device::kCuda, void, PrepareGatherV2);
RIVULET_KERNEL("Gather", Device::kCuda, void, PrepareGather);
RIVULET_KERNEL("OneHot", Device::kCuda, void, PrepareOneHot);
RIVULET_KERNEL("UnsortedSegmentSum", Device::kCuda, float, PrepareSegmentSum<float>);
RIVULET_KERNEL("UnsortedSegmentSum", Device::kCuda, double, PrepareSegmentSum<double>);
RIVULET_KERNEL("UnsortedSegmentSum", Device::kCuda, int32_t, PrepareSegmentSum<int32_t>);
RIVULET_KERNEL("UnsortedSegmentSum", Device::kCuda, int64_t, PrepareSegmentSum<int64_t>);

}  // namespace
}  // namespace rivulet::gpu
