// Shared parts of the normalisation ops: shapes, and the gradient of their gradient.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {

// The axis of channels of `x`, whose rank is known: the last ("NHWC", …), or the second ("NCHW", …). INVALID_ARGUMENT
// when `x` has fewer than two axes.
StatusOr<int> NormalizedChannelAxis(const Shape& x, const std::string& data_format);

// Merges what input `i`, one value per channel, tells into `channels`. INVALID_ARGUMENT, by the input's name, when it
// is no vector or of another length.
Status MergeChannels(const InferenceContext& c, int i, std::string_view name, Shape& channels);

// A normalisation's gradient, written in ops that have gradients themselves.
struct NormalizationGradient {
  std::vector<int64_t> axes;  // over which statistics are taken
  bool centered = true;       // whether the mean is taken away
  float epsilon = 0;
  // Statistics that do not depend on x, broadcast to it, instead of x's own.
  Output mean, variance;

  // The gradients by x, by scale and by offset, from that by y. `scale` is broadcast to x; the other two results have
  // x's shape still.
  std::vector<Output> operator()(GradientOps& ops, Output dy, Output x, Output scale) const;
};

// The gradient of a gradient op with inputs y_backprop, x, scale and statistics of x, and outputs the gradients by x,
// scale and, perhaps, offset. `written_out` says the same in ops that have gradients: these are differentiated in the
// op's place. The statistics get no gradient of their own: `written_out` takes them from x.
using WrittenOut = std::function<std::vector<Output>(GradientOps& ops, Output dy, Output x, Output scale)>;
Status GradientOfGradient(GradientContext& g, const WrittenOut& written_out);

}  // namespace rivulet
