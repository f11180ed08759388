// TakeAlongAxis and ScatterAlongAxis: elements selected individually along an axis.
#include "engine/kernels/cpu/movement/copies.h"
#include "engine/kernels/cpu/movement/scatter.h"
#include "engine/kernels/cpu/strided/constant_input.h"

namespace rivulet {
namespace {

// A walk over the indices (operand 0, without gaps) and the tensor (operand 1), whose position along the axis is fixed.
struct AxisPlan {
  StridedWalk<2> walk;
  int64_t size = 0, stride = 0;  // of the tensor's axis
  bool wide = false;

  StatusOr<int64_t> At(const IndexView& indices, int64_t i) const {
    const int64_t index = indices[i];
    if (index < -size || index >= size)
      return InvalidArgument("index {} at position {} is outside [{}, {})", index, i, -size, size);
    return (index < 0 ? index + size : index) * stride;
  }
};

StatusOr<AxisPlan> PlanAxis(const NodeView& node) {
  const Shape &tensor = node.inputs[0].shape, &indices = node.inputs[1].shape;
  const size_t axis = AxisOf(node.attr<int64_t>("axis"), tensor.rank());
  std::vector<int64_t> strides = RowMajorStrides(tensor);
  AxisPlan plan;
  plan.size = tensor.dim(static_cast<int>(axis));
  plan.stride = strides[axis];
  plan.wide = node.inputs[1].dtype == DType::kInt64;
  strides[axis] = 0;
  RIVULET_ASSIGN_OR_RETURN(plan.walk, MakeWalk<2>(indices.dims(), {RowMajorStrides(indices), strides}));
  return plan;
}

// Calls f(position among the indices, offset in the tensor) for each index.
template <typename F>
Status ForEachIndex(const AxisPlan& plan, const IndexView& indices, F f) {
  Status status;
  plan.walk.ForEachRow([&](const std::array<int64_t, 2>& at, const std::array<int64_t, 2>& stride, int64_t count) {
    for (int64_t i = 0; i < count && status.ok(); ++i) {
      const int64_t position = at[0] + i * stride[0];
      const StatusOr<int64_t> along = plan.At(indices, position);
      if (along.ok())
        f(position, at[1] + i * stride[1] + *along);
      else
        status = along.status();
    }
  });
  return status;
}

template <typename Word>
class TakeKernel final : public Kernel {
 public:
  explicit TakeKernel(const AxisPlan& plan) : plan_(plan) {}
  Status Run(const KernelContext& context) const override {
    const Word* params = InputOf<Word>(context, 0);
    Word* out = OutputOf<Word>(context, 0);
    return ForEachIndex(plan_, {context.inputs[1], plan_.wide},
                        [&](int64_t position, int64_t offset) { out[position] = params[offset]; });
  }

 private:
  AxisPlan plan_;
};

template <typename Word>
std::unique_ptr<const Kernel> MakeTake(const AxisPlan& plan) {
  return std::make_unique<TakeKernel<Word>>(plan);
}

StatusOr<Prepared> PrepareTake(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const AxisPlan plan, PlanAxis(node));
  Prepared prepared;
  RIVULET_ASSIGN_OR_RETURN(
      prepared.kernel, ForElementSize(node.inputs[0].dtype, [&](auto word) { return MakeTake<decltype(word)>(plan); }));
  prepared.implementation = "copy";
  return prepared;
}

template <typename T>
class ScatterKernel final : public Kernel {
 public:
  ScatterKernel(const AxisPlan& plan, int64_t elements, ScatterOp op) : plan_(plan), elements_(elements), op_(op) {}
  Status Run(const KernelContext& context) const override {
    const T *tensor = InputOf<T>(context, 0), *updates = InputOf<T>(context, 2);
    T* out = OutputOf<T>(context, 0);
    if (tensor != out && elements_ > 0) std::memcpy(out, tensor, static_cast<size_t>(elements_) * sizeof(T));
    switch (op_) {
      case ScatterOp::kAdd:
        return Each<ScatterOp::kAdd>(context, updates, out);
      case ScatterOp::kMul:
        return Each<ScatterOp::kMul>(context, updates, out);
      case ScatterOp::kMax:
        return Each<ScatterOp::kMax>(context, updates, out);
      case ScatterOp::kMin:
        return Each<ScatterOp::kMin>(context, updates, out);
      default:
        return Each<ScatterOp::kUpdate>(context, updates, out);
    }
  }

 private:
  template <ScatterOp kOp>
  Status Each(const KernelContext& context, const T* updates, T* out) const {
    return ForEachIndex(plan_, {context.inputs[1], plan_.wide},
                        [&](int64_t position, int64_t offset) { Combine<kOp>(out + offset, updates + position, 1); });
  }

  AxisPlan plan_;
  int64_t elements_;
  ScatterOp op_;
};

template <typename T>
StatusOr<Prepared> PrepareScatter(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const AxisPlan plan, PlanAxis(node));
  const std::string& reduction = node.attr<std::string>("reduction");
  const ScatterOp op = reduction == "add"   ? ScatterOp::kAdd
                       : reduction == "mul" ? ScatterOp::kMul
                       : reduction == "max" ? ScatterOp::kMax
                       : reduction == "min" ? ScatterOp::kMin
                                            : ScatterOp::kUpdate;
  Prepared prepared;
  prepared.kernel = std::make_unique<ScatterKernel<T>>(plan, node.inputs[0].shape.elements(), op);
  prepared.in_place = {{0, 0}};
  prepared.implementation = "loop";
  return prepared;
}

RIVULET_KERNEL_OF_EVERY_SIZE("TakeAlongAxis", PrepareTake);
RIVULET_KERNEL("ScatterAlongAxis", Device::kCpu, float, PrepareScatter<float>);
RIVULET_KERNEL("ScatterAlongAxis", Device::kCpu, double, PrepareScatter<double>);
RIVULET_KERNEL("ScatterAlongAxis", Device::kCpu, int32_t, PrepareScatter<int32_t>);
RIVULET_KERNEL("ScatterAlongAxis", Device::kCpu, int64_t, PrepareScatter<int64_t>);

}  // namespace
}  // namespace rivulet
