// Softmax and LogSoftmax along the last axis, and the cross-entropy with labels that are probabilities.
#include <algorithm>

#include "engine/kernels/cpu/reduction/softmax_rows.h"
#include "engine/kernels/cpu/strided/elementwise.h"

namespace rivulet {
namespace {

template <typename T, bool kLog>
class SoftmaxKernel final : public Kernel {
 public:
  SoftmaxKernel(int64_t rows, int64_t classes) : rows_(rows), classes_(classes) {}
  Status Run(const KernelContext& context) const override {
    if constexpr (kLog)
      LogSoftmaxRows(InputOf<T>(context, 0), OutputOf<T>(context, 0), rows_, classes_);
    else
      SoftmaxRows(InputOf<T>(context, 0), OutputOf<T>(context, 0), rows_, classes_);
    return absl::OkStatus();
  }

 private:
  int64_t rows_, classes_;
};

// Rows of the last axis: {rows, classes}; {0, 0} if there are no elements.
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
  prepared.implementation = std::is_same_v<T, float> ? "hwy" : "loop";
  return prepared;
}

template <typename T>
class CrossEntropyKernel final : public Kernel {
 public:
  CrossEntropyKernel(int64_t rows, int64_t classes) : rows_(rows), classes_(classes) {}
  Status Run(const KernelContext& context) const override {
    CrossEntropyRows(InputOf<T>(context, 0), InputOf<T>(context, 1), OutputOf<T>(context, 0), OutputOf<T>(context, 1),
                     rows_, classes_);
    return absl::OkStatus();
  }

 private:
  int64_t rows_, classes_;
};

// One operand is broadcast: each row is first expanded in scratch.
template <typename T>
class BroadcastCrossEntropyKernel final : public Kernel {
 public:
  struct Operand {
    int64_t row_stride, column_stride;
  };
  BroadcastCrossEntropyKernel(int64_t rows, int64_t classes, Operand features, Operand labels)
      : rows_(rows), classes_(classes), features_(features), labels_(labels) {}
  Status Run(const KernelContext& context) const override {
    T* whole = As<T>(context.scratch);
    for (int64_t row = 0; row < rows_; ++row) {
      const T* features = Row(InputOf<T>(context, 0), features_, row, whole);
      const T* labels = Row(InputOf<T>(context, 1), labels_, row, whole + classes_);
      CrossEntropyRows(features, labels, OutputOf<T>(context, 0) + row, OutputOf<T>(context, 1) + row * classes_, 1,
                       classes_);
    }
    return absl::OkStatus();
  }

 private:
  const T* Row(const T* values, Operand operand, int64_t row, T* whole) const {
    values += row * operand.row_stride;
    if (operand.column_stride == 1) return values;
    std::fill_n(whole, classes_, *values);
    return whole;
  }

  int64_t rows_, classes_;
  Operand features_, labels_;
};

template <typename T>
StatusOr<Prepared> PrepareCrossEntropy(const NodeView& node, const KernelPolicy&) {
  const Shape &features = node.inputs[0].shape, &labels = node.inputs[1].shape, &both = node.outputs[1].shape;
  if (both.dim(1) == 0) return InvalidArgument("features {} have no classes", features.ToString());
  Prepared prepared;
  prepared.implementation = std::is_same_v<T, float> ? "hwy" : "loop";
  if (features == labels) {
    prepared.kernel = std::make_unique<CrossEntropyKernel<T>>(both.dim(0), both.dim(1));
    prepared.in_place = {{0, 1}, {1, 1}};
    return prepared;
  }
  const auto strides = [&](const Shape& shape) {
    const std::vector<int64_t> of = BroadcastStrides(shape, both);
    return typename BroadcastCrossEntropyKernel<T>::Operand{of[0], both.dim(1) == 1 ? 1 : of[1]};
  };
  prepared.kernel =
      std::make_unique<BroadcastCrossEntropyKernel<T>>(both.dim(0), both.dim(1), strides(features), strides(labels));
  prepared.scratch_bytes = static_cast<size_t>(both.dim(1)) * 2 * sizeof(T);
  return prepared;
}

template <typename T, typename Label>
class SparseCrossEntropyKernel final : public Kernel {
 public:
  SparseCrossEntropyKernel(int64_t rows, int64_t classes) : rows_(rows), classes_(classes) {}
  Status Run(const KernelContext& context) const override {
    constexpr int64_t kAtOnce = 64;
    int64_t classes[kAtOnce];
    const Label* labels = InputOf<Label>(context, 1);
    for (int64_t first = 0; first < rows_; first += kAtOnce) {
      const int64_t rows = std::min(kAtOnce, rows_ - first);
      for (int64_t row = 0; row < rows; ++row) {
        classes[row] = labels[first + row];
        if (classes[row] < 0 || classes[row] >= classes_)
          return InvalidArgument("label {} in row {} is outside 0 to {}", classes[row], first + row, classes_ - 1);
      }
      SparseCrossEntropyRows(InputOf<T>(context, 0) + first * classes_, classes, OutputOf<T>(context, 0) + first,
                             OutputOf<T>(context, 1) + first * classes_, rows, classes_);
    }
    return absl::OkStatus();
  }

 private:
  int64_t rows_, classes_;
};

template <typename T>
StatusOr<Prepared> PrepareSparseCrossEntropy(const NodeView& node, const KernelPolicy&) {
  const Shape& features = node.inputs[0].shape;
  if (features.rank() != 2 || features.dim(1) < 1 || node.inputs[1].shape != Shape({features.dim(0)}))
    return InvalidArgument("logits {} and labels {} do not match: [batch, classes] and [batch] are needed",
                           features.ToString(), node.inputs[1].shape.ToString());
  Prepared prepared;
  if (node.inputs[1].dtype == DType::kInt64)
    prepared.kernel = std::make_unique<SparseCrossEntropyKernel<T, int64_t>>(features.dim(0), features.dim(1));
  else if (node.inputs[1].dtype == DType::kInt32)
    prepared.kernel = std::make_unique<SparseCrossEntropyKernel<T, int32_t>>(features.dim(0), features.dim(1));
  else
    return InvalidArgument("labels must be int32 or int64, not {}", Name(node.inputs[1].dtype));
  prepared.in_place = {{0, 1}};
  prepared.implementation = std::is_same_v<T, float> ? "hwy" : "loop";
  return prepared;
}

RIVULET_KERNEL("Softmax", Device::kCpu, float, (PrepareSoftmax<float, false>));
RIVULET_KERNEL("Softmax", Device::kCpu, double, (PrepareSoftmax<double, false>));
RIVULET_KERNEL("LogSoftmax", Device::kCpu, float, (PrepareSoftmax<float, true>));
RIVULET_KERNEL("LogSoftmax", Device::kCpu, double, (PrepareSoftmax<double, true>));
RIVULET_KERNEL("SoftmaxCrossEntropyWithLogits", Device::kCpu, float, PrepareCrossEntropy<float>);
RIVULET_KERNEL("SoftmaxCrossEntropyWithLogits", Device::kCpu, double, PrepareCrossEntropy<double>);
RIVULET_KERNEL("SparseSoftmaxCrossEntropyWithLogits", Device::kCpu, float, PrepareSparseCrossEntropy<float>);
RIVULET_KERNEL("SparseSoftmaxCrossEntropyWithLogits", Device::kCpu, double, PrepareSparseCrossEntropy<double>);

}  // namespace
}  // namespace rivulet
