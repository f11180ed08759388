// Arguments of softmax and cross-entropy over rows (softmax.cu).
#pragma once

#include "engine/kernels/cuda/lane_span.h"

namespace rivulet::gpu {

// "softmax_float", "log_softmax_float". y may be x.
struct SoftmaxArguments {
  LaneSpan<const void> x;
  LaneSpan<void> y;
  int32_t rows, classes;
  Lanes lanes;
};

// "cross_entropy_float" for labels that are probabilities, "sparse_cross_entropy_float_int64_t" for classes. In the
// former both operands are broadcast by strides.
struct CrossEntropyArguments {
  LaneSpan<const void> features, labels;
  LaneSpan<void> loss, backprop;
  int32_t rows, classes;
  int64_t feature_row, feature_column, label_row, label_column;
  Lanes lanes;
};

}  // namespace rivulet::gpu
