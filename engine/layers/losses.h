// Losses and clipping that are built of other ops, for training graphs. Losses are element by element, or row by row;
// the caller takes their mean or sum. Errors stick in the scope.
#pragma once

#include <span>
#include <vector>

#include "engine/graph/scope.h"

namespace rivulet {

// (prediction - target)², broadcast.
Output SquaredError(const Scope& scope, Output prediction, Output target);
// With e = prediction - target: e² / 2 where |e| <= delta, else delta (|e| - delta / 2). Huber (1964). delta > 0.
Output HuberLoss(const Scope& scope, Output prediction, Output target, double delta = 1);
// -log p[label] of each row of log probabilities [batch, classes]; labels are int32 or int64 [batch]. A label outside
// the classes costs 0.
Output NegativeLogLikelihood(const Scope& scope, Output log_probabilities, Output labels);
// -labels log sigmoid(logits) - (1 - labels) log(1 - sigmoid(logits)), exact for large logits, and with the gradient
// sigmoid(logits) - labels everywhere, 0 included.
Output SigmoidCrossEntropyWithLogits(const Scope& scope, Output logits, Output labels);

// t scaled down to an L2 norm of clip_norm where it is larger.
Output ClipByNorm(const Scope& scope, Output t, Output clip_norm);
// The L2 norm of all elements of all tensors, which have one floating type; a scalar.
Output GlobalNorm(const Scope& scope, std::span<const Output> tensors);
// All tensors scaled by the one factor that brings their global norm down to clip_norm where it is larger. Where the
// norm is not finite all become NaN, as in TensorFlow.
std::vector<Output> ClipByGlobalNorm(const Scope& scope, std::span<const Output> tensors, Output clip_norm);

}  // namespace rivulet
