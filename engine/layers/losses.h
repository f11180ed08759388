// Elementwise losses composed of other ops, for training graphs; the caller takes their mean or sum. Errors are kept in
// the scope.
#pragma once

#include "engine/graph/scope.h"

namespace rivulet {

// Returns (prediction - target)², broadcast.
Output SquaredError(const Scope& scope, Output prediction, Output target);
// With e = prediction - target: e² / 2 if |e| <= delta, else delta (|e| - delta / 2). Huber (1964). delta > 0.
Output HuberLoss(const Scope& scope, Output prediction, Output target, double delta = 1);
// Returns -labels log sigmoid(logits) - (1 - labels) log(1 - sigmoid(logits)), exact for large logits. Its gradient is
// sigmoid(logits) - labels everywhere, 0 included.
Output SigmoidCrossEntropyWithLogits(const Scope& scope, Output logits, Output labels);

}  // namespace rivulet
