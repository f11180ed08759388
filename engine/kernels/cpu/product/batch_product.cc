#include "engine/kernels/cpu/product/batch_product.h"

#include <algorithm>
#include <array>

#include "engine/kernels/cpu/product/dnnl_product.h"
#include "engine/kernels/cpu/product/small_matmul.h"
#include "engine/kernels/cpu/strided/elementwise.h"

namespace rivulet {
namespace {

template <typename T>
using Wrapping = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;

template <typename T>
T AddProduct(T sum, T x, T y) {
  return static_cast<T>(static_cast<Wrapping<T>>(sum) + static_cast<Wrapping<T>>(x) * static_cast<Wrapping<T>>(y));
}

// The dot product of two vectors in 16 lanes that are joined as a tree; y is contiguous.
template <typename T>
T SingleDot(const T* x, int64_t x_stride, const T* y, int64_t count) {
  constexpr int64_t kLanes = 16;
  T lanes[kLanes] = {};
  int64_t i = 0;
  if (x_stride == 1) {
    for (; i + kLanes <= count; i += kLanes)
      for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] = AddProduct(lanes[lane], x[i + lane], y[i + lane]);
  } else {
    for (; i + kLanes <= count; i += kLanes)
      for (int64_t lane = 0; lane < kLanes; ++lane)
        lanes[lane] = AddProduct(lanes[lane], x[(i + lane) * x_stride], y[i + lane]);
  }
  for (int64_t lane = 0; i < count; ++i, ++lane) lanes[lane] = AddProduct(lanes[lane], x[i * x_stride], y[i]);
  for (int64_t width = kLanes / 2; width > 0; width /= 2)
    for (int64_t lane = 0; lane < width; ++lane)
      lanes[lane] =
          static_cast<T>(static_cast<Wrapping<T>>(lanes[lane]) + static_cast<Wrapping<T>>(lanes[lane + width]));
  return lanes[0];
}

template <typename T>
void Loop(const ProductShape& s, const T* a, const T* b, T* c) {
  for (int64_t row = 0; row < s.m; ++row, c += s.n) {
    if (s.b_transposed) {
      for (int64_t column = 0; column < s.n; ++column) {
        T sum{0};
        for (int64_t k = 0; k < s.k; ++k) sum = AddProduct(sum, a[row * s.a_row + k * s.a_k], b[column * s.k + k]);
        c[column] = sum;
      }
      continue;
    }
    std::fill_n(c, s.n, T{0});
    for (int64_t k = 0; k < s.k; ++k) {
      const T x = a[row * s.a_row + k * s.a_k];
      const T* from = b + k * s.n;
#pragma GCC ivdep
      for (int64_t column = 0; column < s.n; ++column) c[column] = AddProduct(c[column], x, from[column]);
    }
  }
}

}  // namespace

template <typename T>
BatchProduct<T> BatchProduct<T>::Plan(const ProductShape& s, const KernelPolicy& policy) {
  BatchProduct product;
  product.s_ = s;
  product.form_ = ChooseBatchProduct<T>(s, policy);
  if constexpr (std::is_same_v<T, float>) {
    if (product.form_ == BatchAlgorithm::kLibrary) {
      if (auto prepared = DnnlMatMul(s.m, s.n, s.k, !s.has_rows(), s.b_transposed)) {
        product.implementation_ = "dnnl";
        product.scratch_bytes_ = prepared->scratch_bytes;
        product.library_ = std::move(prepared->kernel);
        return product;
      }
      product.form_ = ChooseOwnBatchProduct(s);
    }
    if (product.form_ != BatchAlgorithm::kLoop && product.form_ != BatchAlgorithm::kSingle)
      product.implementation_ = "hwy";
    if (product.form_ == BatchAlgorithm::kTransposeThenPanel)
      product.scratch_bytes_ = static_cast<size_t>(s.n * s.k) * sizeof(float);
  }
  return product;
}

template <typename T>
Status BatchProduct<T>::Run(const T* a, const T* b, T* c, std::byte* scratch, KernelState* state) const {
  if (form_ == BatchAlgorithm::kLoop) {
    Loop(s_, a, b, c);
    return absl::OkStatus();
  }
  if (form_ == BatchAlgorithm::kSingle) {
    *c = SingleDot(a, s_.a_k, b, s_.k);
    return absl::OkStatus();
  }
  if constexpr (std::is_same_v<T, float>) {
    switch (form_) {
      case BatchAlgorithm::kDot:
        DotMatMul(a, b, c, s_.m, s_.n, s_.k);
        break;
      case BatchAlgorithm::kTransposeThenPanel:
        TransposeMatrix(b, As<float>(scratch), s_.n, s_.k);
        PanelMatMul(a, s_.a_row, s_.a_k, As<float>(scratch), c, s_.m, s_.n, s_.k);
        break;
      case BatchAlgorithm::kLibrary: {
        const auto bytes = [](const float* p) { return reinterpret_cast<std::byte*>(const_cast<float*>(p)); };
        const std::array<std::byte*, 2> inputs = {bytes(a), bytes(b)};
        const std::array<std::byte*, 1> outputs = {bytes(c)};
        KernelContext context;
        context.inputs = inputs;
        context.outputs = outputs;
        context.scratch = scratch;
        context.state = state;
        return library_->Run(context);
      }
      default:
        PanelMatMul(a, s_.a_row, s_.a_k, b, c, s_.m, s_.n, s_.k);
        break;
    }
  }
  return absl::OkStatus();
}

template class BatchProduct<float>;
template class BatchProduct<double>;
template class BatchProduct<int32_t>;
template class BatchProduct<int64_t>;

}  // namespace rivulet
