// Softmax and LogSoftmax along the last axis, and the cross-entropy with labels that are probabilities.
#include <algorithm>

#include "engine/kernels/cpu/elementwise.h"
#include "engine/kernels/cpu/math.h"
#include "engine/kernels/cpu/transcendental.h"

namespace rivulet {
namespace {

// Rows are shifted by their largest element, so that no exponential overflows.
template <typename T>
T Largest(const T* row, int64_t count) {
  T largest = row[0];
  for (int64_t i = 1; i < count; ++i) largest = row[i] > largest || row[i] != row[i] ? row[i] : largest;
  return largest;
}

// out[i] = e^(in[i] - largest); `out` may be `in`.
void Exps(const float* in, float largest, float* out, int64_t count) {
  ExpOfShifted(in, largest, out, static_cast<size_t>(count));
}
void Exps(const double* in, double largest, double* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = math::Exp(in[i] - largest);
}

// In eight virtual lanes, so that the order is fixed and not one chain.
template <typename T>
double SumOf(const T* values, int64_t count) {
  double lanes[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int64_t lane = 0; lane < 8; ++lane) lanes[lane] += static_cast<double>(values[i + lane]);
  for (int64_t lane = 0; i < count; ++i, ++lane) lanes[lane] += static_cast<double>(values[i]);
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

// The sum of e^(in[i] - largest), which is not kept.
template <typename T>
double SumOfExps(const T* in, T largest, int64_t count) {
  constexpr int64_t kBlock = 256;
  T exps[kBlock];
  double sum = 0;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t width = std::min(kBlock, count - begin);
    Exps(in + begin, largest, exps, width);
    sum += SumOf(exps, width);
  }
  return sum;
}

template <typename T, bool kLog>
class SoftmaxKernel final : public Kernel {
 public:
  SoftmaxKernel(int64_t rows, int64_t classes) : rows_(rows), classes_(classes) {}
  Status Run(const KernelContext& context) const override {
    const T* in = InputOf<T>(context, 0);
    T* out = OutputOf<T>(context, 0);
    for (int64_t row = 0; row < rows_; ++row, in += classes_, out += classes_) {
      const T largest = Largest(in, classes_);
      if constexpr (kLog) {
        const T log_sum = static_cast<T>(math::Log(SumOfExps(in, largest, classes_)));
        for (int64_t i = 0; i < classes_; ++i) out[i] = (in[i] - largest) - log_sum;
      } else {
        Exps(in, largest, out, classes_);
        const T sum = static_cast<T>(SumOf(out, classes_));
        for (int64_t i = 0; i < classes_; ++i) out[i] /= sum;
      }
    }
    return absl::OkStatus();
  }

 private:
  int64_t rows_, classes_;
};

// Rows of the last axis: {rows, classes}; {0, 0} when there is nothing to do.
std::pair<int64_t, int64_t> RowsOf(const Shape& shape) {
  const int64_t elements = shape.elements(), classes = shape.dim(shape.rank() - 1);
  return elements == 0 ? std::pair<int64_t, int64_t>{0, 0} : std::pair{elements / classes, classes};
}

template <typename T, bool kLog>
StatusOr<Prepared> PrepareSoftmax(const NodeView& node, const KernelPolicy&) {
  const auto [rows, classes] = RowsOf(node.inputs[0].shape);
  Prepared prepared;
  prepared.kernel = std::make_unique<SoftmaxKernel<T, kLog>>(rows, classes);
  prepared.in_place = {{0, 0}};
  prepared.implementation = "loop";
  return prepared;
}

template <typename T>
class CrossEntropyKernel final : public Kernel {
 public:
  CrossEntropyKernel(int64_t rows, int64_t classes) : rows_(rows), classes_(classes) {}
  Status Run(const KernelContext& context) const override {
    const T *features = InputOf<T>(context, 0), *labels = InputOf<T>(context, 1);
    T *loss = OutputOf<T>(context, 0), *backprop = OutputOf<T>(context, 1);
    for (int64_t row = 0; row < rows_; ++row, features += classes_, labels += classes_, backprop += classes_) {
      const T largest = Largest(features, classes_);
      // The exponentials wait in a block, because backprop may lie in the place of features or labels.
      const double sum = SumOfExps(features, largest, classes_);
      const double log_sum = math::Log(sum);
      double total = 0;
      constexpr int64_t kBlock = 256;
      T exps[kBlock];
      for (int64_t begin = 0; begin < classes_; begin += kBlock) {
        const int64_t end = std::min(begin + kBlock, classes_);
        Exps(features + begin, largest, exps, end - begin);
        for (int64_t i = begin; i < end; ++i) {
          const double shifted = static_cast<double>(features[i]) - static_cast<double>(largest);
          const double label = static_cast<double>(labels[i]);
          if (label != 0) total += label * (log_sum - shifted);  // 0 · inf counts nothing
          backprop[i] = static_cast<T>(static_cast<double>(exps[i - begin]) / sum - label);
        }
      }
      loss[row] = static_cast<T>(total);
    }
    return absl::OkStatus();
  }

 private:
  int64_t rows_, classes_;
};

template <typename T>
StatusOr<Prepared> PrepareCrossEntropy(const NodeView& node, const KernelPolicy&) {
  const Shape& features = node.inputs[0].shape;
  if (features.dim(1) == 0) return InvalidArgument("features {} have no classes", features.ToString());
  Prepared prepared;
  prepared.kernel = std::make_unique<CrossEntropyKernel<T>>(features.dim(0), features.dim(1));
  prepared.in_place = {{0, 1}, {1, 1}};
  prepared.implementation = "loop";
  return prepared;
}

RIVULET_KERNEL("Softmax", Device::kCpu, float, (PrepareSoftmax<float, false>));
RIVULET_KERNEL("Softmax", Device::kCpu, double, (PrepareSoftmax<double, false>));
RIVULET_KERNEL("LogSoftmax", Device::kCpu, float, (PrepareSoftmax<float, true>));
RIVULET_KERNEL("LogSoftmax", Device::kCpu, double, (PrepareSoftmax<double, true>));
RIVULET_KERNEL("SoftmaxCrossEntropyWithLogits", Device::kCpu, float, PrepareCrossEntropy<float>);
RIVULET_KERNEL("SoftmaxCrossEntropyWithLogits", Device::kCpu, double, PrepareCrossEntropy<double>);

}  // namespace
}  // namespace rivulet
