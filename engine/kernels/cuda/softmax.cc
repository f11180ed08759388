// Adapters of softmax.cu.
#include "engine/kernels/cuda/softmax.h"

#include "engine/kernels/cpu/strided/strided.h"
#include "engine/kernels/cuda/launch.h"

namespace rivulet::gpu {
namespace {

template <typename T, bool kLog>
StatusOr<Prepared> PrepareSoftmax(const NodeView& node, const KernelPolicy&) {
  const Shape& shape = node.inputs[0].shape;
  SoftmaxArguments arguments{};
  RIVULET_RETURN_IF_ERROR(CountOf(shape.elements()).status());
  arguments.classes = static_cast<int32_t>(shape.dim(shape.rank() - 1));
  arguments.rows = shape.elements() == 0 ? 0 : static_cast<int32_t>(shape.elements() / arguments.classes);
  return Launching(
      [arguments](const GpuContext& c) {
        if (arguments.rows == 0) return absl::OkStatus();
        SoftmaxArguments a = arguments;
        a.x = InputOf<void>(c, 0);
        a.y = OutputOf<void>(c, 0);
        return Put(c, fmt::format("{}_{}", kLog ? "log_softmax" : "softmax", kTypeText<T>), a);
      },
      4.0 * static_cast<double>(shape.elements()), {{0, 0}});
}

Prepared CrossEntropy(const CrossEntropyArguments& arguments, std::string kernel,
                      std::vector<std::pair<int, int>> in_place) {
  return Launching(
      [arguments, kernel = std::move(kernel)](const GpuContext& c) {
        if (arguments.rows == 0) return absl::OkStatus();
        CrossEntropyArguments a = arguments;
        a.features = InputOf<void>(c, 0);
        a.labels = InputOf<void>(c, 1);
        a.loss = OutputOf<void>(c, 0);
        a.backprop = OutputOf<void>(c, 1);
        return Put(c, kernel, a);
      },
      6.0 * arguments.rows * arguments.classes, std::move(in_place));
}

template <typename T>
StatusOr<Prepared> PrepareCrossEntropy(const NodeView& node, const KernelPolicy&) {
  const Shape &features = node.inputs[0].shape, &labels = node.inputs[1].shape, &both = node.outputs[1].shape;
  if (both.dim(1) == 0) return InvalidArgument("features {} have no classes", features.ToString());
  RIVULET_RETURN_IF_ERROR(CountOf(both.elements()).status());
  CrossEntropyArguments arguments{};
  arguments.rows = static_cast<int32_t>(both.dim(0));
  arguments.classes = static_cast<int32_t>(both.dim(1));
  const std::vector<int64_t> feature = BroadcastStrides(features, both), label = BroadcastStrides(labels, both);
  arguments.feature_row = feature[0];
  arguments.feature_column = feature[1];
  arguments.label_row = label[0];
  arguments.label_column = label[1];
  std::vector<std::pair<int, int>> in_place;
  if (features == labels) in_place = {{0, 1}, {1, 1}};
  return CrossEntropy(arguments, fmt::format("cross_entropy_{}", kTypeText<T>), std::move(in_place));
}

template <typename T>
StatusOr<Prepared> PrepareSparseCrossEntropy(const NodeView& node, const KernelPolicy&) {
  const Shape& features = node.inputs[0].shape;
  if (features.rank() != 2 || features.dim(1) < 1 || node.inputs[1].shape != Shape({features.dim(0)}))
    return InvalidArgument("logits {} and labels {} do not match: [batch, classes] and [batch] are needed",
                           features.ToString(), node.inputs[1].shape.ToString());
  const DType label = node.inputs[1].dtype;
  if (label != DType::kInt64 && label != DType::kInt32)
    return InvalidArgument("labels must be int32 or int64, not {}", Name(label));
  RIVULET_RETURN_IF_ERROR(CountOf(features.elements()).status());
  CrossEntropyArguments arguments{};
  arguments.rows = static_cast<int32_t>(features.dim(0));
  arguments.classes = static_cast<int32_t>(features.dim(1));
  return CrossEntropy(arguments,
                      fmt::format("sparse_cross_entropy_{}_{}", kTypeText<T>,
                                  label == DType::kInt64 ? kTypeText<int64_t> : kTypeText<int32_t>),
                      {{0, 1}});
}

#define RIVULET_GPU_SOFTMAX(T)                                                               \
  RIVULET_KERNEL("Softmax", Device::kCuda, T, (PrepareSoftmax<T, false>));                   \
  RIVULET_KERNEL("LogSoftmax", Device::kCuda, T, (PrepareSoftmax<T, true>));                 \
  RIVULET_KERNEL("SoftmaxCrossEntropyWithLogits", Device::kCuda, T, PrepareCrossEntropy<T>); \
  RIVULET_KERNEL("SparseSoftmaxCrossEntropyWithLogits", Device::kCuda, T, PrepareSparseCrossEntropy<T>)
RIVULET_GPU_SOFTMAX(float);
RIVULET_GPU_SOFTMAX(double);

}  // namespace
}  // namespace rivulet::gpu
