// SparseSoftmaxCrossEntropyWithLogits: per row, loss = log Σ exp(x − max) − (x[label] − max), gradient = softmax −
// one-hot.
#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/program/kernel.h"

namespace rivulet {
namespace {

// exp(x) for x <= 0, without libm, so that unlike machines agree: x = n ln2 + r, a polynomial in r (Cephes expf,
// relative error below 2e-7), scaled by 2^n. Below the smallest normal float: 0.
inline float Exp(float x) {
  if (!(x > -87.0f)) return x != x ? x : 0.0f;
  const float n =
      static_cast<float>(static_cast<int>(x * 1.44269504f - 0.5f));  // toward zero of x <= 0: round to nearest
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  return p * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
}
inline double Exp(double x) { return std::exp(x); }

// log(x) for normal x >= 1 (a sum of exponentials of which one is 1), Cephes logf.
inline float Log(float x) {
  if (!(x < 3e38f)) return x;  // infinity and NaN
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  int exponent = static_cast<int>(bits >> 23) - 126;
  float m = std::bit_cast<float>((bits & 0x007FFFFFu) | 0x3F000000u);  // [0.5, 1)
  if (m < 0.707106781f) {
    --exponent;
    m += m;
  }
  m -= 1.0f;
  const float z = m * m, e = static_cast<float>(exponent);
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  float y = p * m * z;
  y += -2.12194440e-4f * e;
  y -= 0.5f * z;
  return (m + y) + 0.693359375f * e;
}
inline double Log(double x) { return std::log(x); }

template <typename T, typename Label>
class SparseSoftmaxCrossEntropy final : public Kernel {
 public:
  SparseSoftmaxCrossEntropy(int64_t rows, int64_t classes) : rows_(rows), classes_(classes) {}
  Status Run(const KernelContext& context) const override {
    const T* logits = reinterpret_cast<const T*>(context.inputs[0]);
    const Label* labels = reinterpret_cast<const Label*>(context.inputs[1]);
    T* loss = reinterpret_cast<T*>(context.outputs[0]);
    T* gradient = reinterpret_cast<T*>(context.outputs[1]);
    for (int64_t row = 0; row < rows_; ++row, logits += classes_, gradient += classes_) {
      const int64_t label = labels[row];
      if (label < 0 || label >= classes_) {
        return InvalidArgument("label {} in row {} is outside 0 to {}", label, row, classes_ - 1);
      }
      T most = logits[0];
      for (int64_t i = 1; i < classes_; ++i) most = std::max(most, logits[i]);
      const T of_label = logits[label] - most;
      T sum{0};
      for (int64_t i = 0; i < classes_; ++i) sum += gradient[i] = Exp(logits[i] - most);
      loss[row] = Log(sum) - of_label;
      for (int64_t i = 0; i < classes_; ++i) gradient[i] /= sum;
      gradient[label] -= T{1};
    }
    return {};
  }

 private:
  int64_t rows_, classes_;
};

template <typename T>
StatusOr<Prepared> PrepareSparseSoftmaxCrossEntropy(const NodeView& node, const KernelPolicy&) {
  const Shape& logits = node.inputs[0].shape;
  if (logits.rank() != 2 || logits.dim(1) < 1 || node.inputs[1].shape != Shape({logits.dim(0)})) {
    return InvalidArgument("logits {} and labels {} do not match: [batch, classes] and [batch] are needed",
                           logits.ToString(), node.inputs[1].shape.ToString());
  }
  Prepared prepared;
  if (node.inputs[1].dtype == DType::kInt64) {
    prepared.kernel = std::make_unique<SparseSoftmaxCrossEntropy<T, int64_t>>(logits.dim(0), logits.dim(1));
  } else if (node.inputs[1].dtype == DType::kInt32) {
    prepared.kernel = std::make_unique<SparseSoftmaxCrossEntropy<T, int32_t>>(logits.dim(0), logits.dim(1));
  } else {
    return InvalidArgument("labels must be int32 or int64, not {}", Name(node.inputs[1].dtype));
  }
  prepared.in_place = {{0, 1}};
  prepared.implementation = "loops";
  return prepared;
}

RIVULET_KERNEL("SparseSoftmaxCrossEntropyWithLogits", Device::kCpu, float, PrepareSparseSoftmaxCrossEntropy<float>);
RIVULET_KERNEL("SparseSoftmaxCrossEntropyWithLogits", Device::kCpu, double, PrepareSparseSoftmaxCrossEntropy<double>);

}  // namespace
}  // namespace rivulet
