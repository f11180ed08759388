// Products of many small matrices. Each element is summed from the first term to the last.
#include <algorithm>

#include "engine/kernels/cpu/elementwise.h"

namespace rivulet {
namespace {

template <typename T>
class BatchMatMulKernel final : public Kernel {
 public:
  struct Sizes {
    int64_t m, k, n;
    int64_t x_row, x_term, y_term, y_column;  // strides
  };
  BatchMatMulKernel(StridedWalk<3> batches, Sizes sizes) : batches_(batches), s_(sizes) {}
  Status Run(const KernelContext& context) const override {
    const T *x = InputOf<T>(context, 0), *y = InputOf<T>(context, 1);
    T* out = OutputOf<T>(context, 0);
    batches_.ForEachRow([&](const std::array<int64_t, 3>& at, const std::array<int64_t, 3>& stride, int64_t count) {
      for (int64_t i = 0; i < count; ++i)
        Product(x + at[1] + i * stride[1], y + at[2] + i * stride[2], out + at[0] + i * stride[0]);
    });
    return absl::OkStatus();
  }

 private:
  using Wrapping =
      typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;

  void Product(const T* x, const T* y, T* out) const {
    for (int64_t row = 0; row < s_.m; ++row, out += s_.n) {
      std::fill_n(out, s_.n, T{0});
      for (int64_t term = 0; term < s_.k; ++term) {
        const auto a = static_cast<Wrapping>(x[row * s_.x_row + term * s_.x_term]);
        const T* b = y + term * s_.y_term;
        if (s_.y_column == 1) {
          for (int64_t column = 0; column < s_.n; ++column)
            out[column] = static_cast<T>(static_cast<Wrapping>(out[column]) + a * static_cast<Wrapping>(b[column]));
        } else {
          for (int64_t column = 0; column < s_.n; ++column)
            out[column] =
                static_cast<T>(static_cast<Wrapping>(out[column]) + a * static_cast<Wrapping>(b[column * s_.y_column]));
        }
      }
    }
  }

  StridedWalk<3> batches_;
  Sizes s_;
};

template <typename T>
StatusOr<Prepared> PrepareBatchMatMul(const NodeView& node, const KernelPolicy&) {
  const Shape &x = node.inputs[0].shape, &y = node.inputs[1].shape, &output = node.outputs[0].shape;
  const bool adj_x = node.attr<bool>("adj_x"), adj_y = node.attr<bool>("adj_y");
  const auto last = [](const Shape& shape, int from_end) { return shape.dim(shape.rank() - from_end); };
  const auto batch = [](const Shape& shape) {
    return Shape(std::vector<int64_t>(shape.dims().begin(), shape.dims().end() - 2));
  };
  // The walk counts matrices; its offsets become elements.
  RIVULET_ASSIGN_OR_RETURN(auto walk, MakeBroadcastWalk<2>(batch(output), {batch(x), batch(y)}));
  const std::array<int64_t, 3> matrix = {last(output, 2) * last(output, 1), last(x, 2) * last(x, 1),
                                         last(y, 2) * last(y, 1)};
  for (size_t operand = 0; operand < 3; ++operand)
    for (int64_t& stride : walk.strides[operand]) stride *= matrix[operand];
  typename BatchMatMulKernel<T>::Sizes sizes{};
  sizes.m = last(output, 2);
  sizes.n = last(output, 1);
  sizes.k = last(x, adj_x ? 2 : 1);
  sizes.x_row = adj_x ? 1 : last(x, 1);
  sizes.x_term = adj_x ? last(x, 1) : 1;
  sizes.y_term = adj_y ? 1 : last(y, 1);
  sizes.y_column = adj_y ? last(y, 1) : 1;
  Prepared prepared;
  prepared.kernel = std::make_unique<BatchMatMulKernel<T>>(walk, sizes);
  prepared.implementation = "loop";
  prepared.flops = 2.0 * static_cast<double>(output.elements()) * static_cast<double>(sizes.k);
  return prepared;
}

RIVULET_KERNEL("BatchMatMulV2", Device::kCpu, float, PrepareBatchMatMul<float>);
RIVULET_KERNEL("BatchMatMulV2", Device::kCpu, double, PrepareBatchMatMul<double>);
RIVULET_KERNEL("BatchMatMulV2", Device::kCpu, int32_t, PrepareBatchMatMul<int32_t>);
RIVULET_KERNEL("BatchMatMulV2", Device::kCpu, int64_t, PrepareBatchMatMul<int64_t>);

}  // namespace
}  // namespace rivulet
