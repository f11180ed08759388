// Shared parts of the normalisation ops: shapes, and the gradient of their gradient.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {

// Returns the channel axis of `x`, whose rank is known: the last ("NHWC", …) or the second ("NCHW", …).
// INVALID_ARGUMENT: `x` has fewer than two axes.
StatusOr<int> NormalizedChannelAxis(const Shape& x, const std::string& data_format);

// Merges the length of input `i`, which has one value per channel, into `channels`. INVALID_ARGUMENT, with the input's
// name: it is not a vector, or its length differs.
Status MergeChannels(const InferenceContext& c, int i, std::string_view name, Shape& channels);

// A normalisation's gradient, composed of ops that themselves have gradients.
struct NormalizationGradient {
  std::vector<int64_t> axes;  // axes over which statistics are computed
  bool centered = true;       // true if the mean is subtracted
  float epsilon = 0;
  // Statistics that do not depend on x, broadcast to its shape. Empty: x's own statistics.
  Output mean, variance;

  // Returns the gradients by x, scale and offset from the gradient by y. `scale` is broadcast to x; the gradients by
  // scale and offset still have x's shape.
  std::vector<Output> operator()(GradientOps& ops, Output dy, Output x, Output scale) const;
};

// Computes the gradient of a gradient op with inputs y_backprop, x, scale and statistics of x, and with outputs the
// gradients by x, scale and optionally offset. `written_out` computes the same with ops that have gradients and is
// differentiated in the op's place. The statistics get no gradient: `written_out` computes them from x.
using WrittenOut = std::function<std::vector<Output>(GradientOps& ops, Output dy, Output x, Output scale)>;
Status GradientOfGradient(GradientContext& g, const WrittenOut& written_out);

}  // namespace rivulet
