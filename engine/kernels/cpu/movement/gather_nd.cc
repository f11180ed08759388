// GatherNd, ScatterNd and the TensorScatter ops: slices selected by index vectors.
#include "engine/kernels/cpu/movement/copies.h"
#include "engine/kernels/cpu/movement/scatter.h"

namespace rivulet {
namespace {

// Mapping of index vectors [count, depth] to slices of a tensor.
struct SlicePlan {
  std::vector<int64_t> dims, strides;  // of the first `depth` axes; strides count slices
  int64_t count = 0;                   // number of index vectors
  int64_t slice = 1;                   // elements of a slice
  int64_t elements = 0;                // of the whole tensor
  bool wide = false;

  // The slice for vector `i`. INVALID_ARGUMENT: out of range.
  StatusOr<int64_t> At(const IndexView& indices, int64_t i) const {
    const auto depth = static_cast<int64_t>(dims.size());
    int64_t slice_index = 0;
    for (int64_t axis = 0; axis < depth; ++axis) {
      const int64_t index = indices[i * depth + axis], dim = dims[static_cast<size_t>(axis)];
      if (index < 0 || index >= dim)
        return InvalidArgument("index {} of axis {}, in index vector {}, is outside [0, {})", index, axis, i, dim);
      slice_index += index * strides[static_cast<size_t>(axis)];
    }
    return slice_index;
  }
};

SlicePlan PlanSlices(const Shape& tensor, const TensorSpec& indices) {
  SlicePlan plan;
  const auto depth = static_cast<int>(indices.shape.dim(indices.shape.rank() - 1));
  plan.wide = indices.dtype == DType::kInt64;
  plan.count = 1;
  for (int axis = 0; axis + 1 < indices.shape.rank(); ++axis) plan.count *= indices.shape.dim(axis);
  for (int axis = depth; axis < tensor.rank(); ++axis) plan.slice *= tensor.dim(axis);
  plan.elements = tensor.elements();
  plan.dims.assign(tensor.dims().begin(), tensor.dims().begin() + depth);
  plan.strides = RowMajorStrides(Shape(plan.dims));
  return plan;
}

class GatherNdKernel final : public Kernel {
 public:
  GatherNdKernel(SlicePlan plan, size_t element)
      : plan_(std::move(plan)), bytes_(static_cast<size_t>(plan_.slice) * element) {}
  Status Run(const KernelContext& context) const override {
    const IndexView indices{context.inputs[1], plan_.wide};
    std::byte* out = context.outputs[0];
    for (int64_t i = 0; i < plan_.count; ++i, out += bytes_) {
      RIVULET_ASSIGN_OR_RETURN(const int64_t slice, plan_.At(indices, i));
      if (bytes_ > 0) std::memcpy(out, context.inputs[0] + static_cast<size_t>(slice) * bytes_, bytes_);
    }
    return absl::OkStatus();
  }

 private:
  SlicePlan plan_;
  size_t bytes_;
};

StatusOr<Prepared> PrepareGatherNd(const NodeView& node, const KernelPolicy&) {
  Prepared prepared;
  prepared.kernel =
      std::make_unique<GatherNdKernel>(PlanSlices(node.inputs[0].shape, node.inputs[1]), SizeOf(node.inputs[0].dtype));
  prepared.implementation = "copy";
  return prepared;
}

// Starts from input `tensor`, or from zeros if it is negative.
template <ScatterOp kOp, typename T>
class ScatterNdKernel final : public Kernel {
 public:
  ScatterNdKernel(SlicePlan plan, int tensor, int indices, int updates)
      : plan_(std::move(plan)), tensor_(tensor), indices_(indices), updates_(updates) {}
  Status Run(const KernelContext& context) const override {
    T* out = OutputOf<T>(context, 0);
    const auto bytes = static_cast<size_t>(plan_.elements) * sizeof(T);
    if (tensor_ < 0) {
      if (bytes > 0) std::memset(out, 0, bytes);
    } else if (const std::byte* tensor = context.inputs[static_cast<size_t>(tensor_)];
               tensor != context.outputs[0] && bytes > 0) {
      std::memcpy(out, tensor, bytes);
    }
    const IndexView indices{context.inputs[static_cast<size_t>(indices_)], plan_.wide};
    const T* updates = InputOf<T>(context, static_cast<size_t>(updates_));
    for (int64_t i = 0; i < plan_.count; ++i) {
      RIVULET_ASSIGN_OR_RETURN(const int64_t slice, plan_.At(indices, i));
      Combine<kOp>(out + slice * plan_.slice, updates + i * plan_.slice, plan_.slice);
    }
    return absl::OkStatus();
  }

 private:
  SlicePlan plan_;
  int tensor_, indices_, updates_;
};

template <typename T>
StatusOr<Prepared> PrepareScatterNd(const NodeView& node, const KernelPolicy&) {
  Prepared prepared;
  prepared.kernel = std::make_unique<ScatterNdKernel<ScatterOp::kAdd, T>>(
      PlanSlices(node.outputs[0].shape, node.inputs[0]), -1, 0, 1);
  prepared.implementation = "loop";
  prepared.flops = static_cast<double>(node.inputs[1].shape.elements());
  return prepared;
}

template <ScatterOp kOp, typename T>
std::unique_ptr<const Kernel> MakeTensorScatter(const NodeView& node) {
  return std::make_unique<ScatterNdKernel<kOp, T>>(PlanSlices(node.inputs[0].shape, node.inputs[1]), 0, 1, 2);
}

Prepared Scattering(const NodeView& node, std::unique_ptr<const Kernel> kernel) {
  Prepared prepared;
  prepared.kernel = std::move(kernel);
  prepared.in_place = {{0, 0}};
  prepared.implementation = "loop";
  prepared.flops = static_cast<double>(node.inputs[2].shape.elements());
  return prepared;
}

StatusOr<Prepared> PrepareScatterUpdate(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(auto kernel, ForElementSize(node.inputs[0].dtype, [&](auto word) {
                             return MakeTensorScatter<ScatterOp::kUpdate, decltype(word)>(node);
                           }));
  return Scattering(node, std::move(kernel));
}

template <ScatterOp kOp, typename T>
StatusOr<Prepared> PrepareTensorScatter(const NodeView& node, const KernelPolicy&) {
  return Scattering(node, MakeTensorScatter<kOp, T>(node));
}

RIVULET_KERNEL_OF_EVERY_SIZE("GatherNd", PrepareGatherNd);
RIVULET_KERNEL_OF_EVERY_SIZE("TensorScatterUpdate", PrepareScatterUpdate);
#define RIVULET_SCATTER_KERNEL(type)                                                                     \
  RIVULET_KERNEL("ScatterNd", Device::kCpu, type, PrepareScatterNd<type>);                               \
  RIVULET_KERNEL("TensorScatterAdd", Device::kCpu, type, (PrepareTensorScatter<ScatterOp::kAdd, type>)); \
  RIVULET_KERNEL("TensorScatterSub", Device::kCpu, type, (PrepareTensorScatter<ScatterOp::kSub, type>)); \
  RIVULET_KERNEL("TensorScatterMul", Device::kCpu, type, (PrepareTensorScatter<ScatterOp::kMul, type>)); \
  RIVULET_KERNEL("TensorScatterMax", Device::kCpu, type, (PrepareTensorScatter<ScatterOp::kMax, type>)); \
  RIVULET_KERNEL("TensorScatterMin", Device::kCpu, type, (PrepareTensorScatter<ScatterOp::kMin, type>))
RIVULET_SCATTER_KERNEL(float);
RIVULET_SCATTER_KERNEL(double);
RIVULET_SCATTER_KERNEL(int32_t);
RIVULET_SCATTER_KERNEL(int64_t);

}  // namespace
}  // namespace rivulet
