// Products of many matrices. If all of x's matrices are multiplied by one matrix y, their rows are one tall matrix.
#include "engine/kernels/cpu/product/batch_product.h"
#include "engine/kernels/cpu/strided/elementwise.h"

namespace rivulet {
namespace {

template <typename T>
class BatchMatMulKernel final : public Kernel {
 public:
  BatchMatMulKernel(StridedWalk<3> batches, BatchProduct<T> product)
      : batches_(batches), product_(std::move(product)) {}
  Status Run(const KernelContext& context) const override {
    const T *x = InputOf<T>(context, 0), *y = InputOf<T>(context, 1);
    T* out = OutputOf<T>(context, 0);
    Status status;
    batches_.ForEachRow([&](const std::array<int64_t, 3>& at, const std::array<int64_t, 3>& stride, int64_t count) {
      for (int64_t i = 0; i < count && status.ok(); ++i)
        status = product_.Run(x + at[1] + i * stride[1], y + at[2] + i * stride[2], out + at[0] + i * stride[0],
                              context.scratch, context.state);
    });
    return status;
  }
  std::unique_ptr<KernelState> NewState() const override { return product_.NewState(); }

 private:
  StridedWalk<3> batches_;
  BatchProduct<T> product_;
};

template <typename T>
StatusOr<Prepared> PrepareBatchMatMul(const NodeView& node, const KernelPolicy& policy) {
  const Shape &x = node.inputs[0].shape, &y = node.inputs[1].shape, &output = node.outputs[0].shape;
  const bool adj_x = node.attr<bool>("adj_x"), adj_y = node.attr<bool>("adj_y");
  const auto last = [](const Shape& shape, int from_end) { return shape.dim(shape.rank() - from_end); };
  const auto batch = [](const Shape& shape) {
    return Shape(std::vector<int64_t>(shape.dims().begin(), shape.dims().end() - 2));
  };
  ProductShape s;
  s.m = last(output, 2);
  s.n = last(output, 1);
  s.k = last(x, adj_x ? 2 : 1);
  s.a_row = adj_x ? 1 : last(x, 1);
  s.a_k = adj_x ? last(x, 1) : 1;
  s.b_transposed = adj_y;
  // The walk counts matrices; its offsets are converted to elements.
  RIVULET_ASSIGN_OR_RETURN(auto walk, MakeBroadcastWalk<2>(batch(output), {batch(x), batch(y)}));
  const std::array<int64_t, 3> matrix = {s.m * s.n, last(x, 2) * last(x, 1), last(y, 2) * last(y, 1)};
  for (size_t operand = 0; operand < 3; ++operand)
    for (int64_t& stride : walk.strides[operand]) stride *= matrix[operand];
  if (!adj_x && batch(y).elements() == 1 && batch(x).elements() == batch(output).elements()) {
    s.m *= batch(output).elements();
    RIVULET_ASSIGN_OR_RETURN(walk, MakeWalk<3>({}, {}));
  }
  if (output.elements() == 0) walk.dims[0] = 0;
  auto product = BatchProduct<T>::Plan(s, policy);
  Prepared prepared;
  prepared.scratch_bytes = product.scratch_bytes();
  prepared.implementation = product.implementation();
  prepared.flops = 2.0 * static_cast<double>(output.elements()) * static_cast<double>(s.k);
  prepared.kernel = std::make_unique<BatchMatMulKernel<T>>(walk, std::move(product));
  return prepared;
}

RIVULET_KERNEL("BatchMatMulV2", Device::kCpu, float, PrepareBatchMatMul<float>);
RIVULET_KERNEL("BatchMatMul", Device::kCpu, float, PrepareBatchMatMul<float>);
RIVULET_KERNEL("BatchMatMulV2", Device::kCpu, double, PrepareBatchMatMul<double>);
RIVULET_KERNEL("BatchMatMul", Device::kCpu, double, PrepareBatchMatMul<double>);
RIVULET_KERNEL("BatchMatMulV2", Device::kCpu, int32_t, PrepareBatchMatMul<int32_t>);
RIVULET_KERNEL("BatchMatMul", Device::kCpu, int32_t, PrepareBatchMatMul<int32_t>);
RIVULET_KERNEL("BatchMatMulV2", Device::kCpu, int64_t, PrepareBatchMatMul<int64_t>);
RIVULET_KERNEL("BatchMatMul", Device::kCpu, int64_t, PrepareBatchMatMul<int64_t>);

}  // namespace
}  // namespace rivulet
