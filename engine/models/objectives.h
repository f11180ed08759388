// Training objectives of a model: the kinds of targets in its examples, and the losses for each kind.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/scope.h"

namespace rivulet {

enum class TargetKind : uint8_t {
  kClass,    // "class": the number of one class, int64 [?], or one for each position, [?,positions]
  kLabels,   // "labels": int64 of the scores' shape, 1 where the example has that label and 0 where it has not
  kNumbers,  // "numbers": float32 of the model's output's shape
};
StatusOr<TargetKind> TargetKindFromName(std::string_view name);  // INVALID_ARGUMENT lists them

// Scores and targets of one batch: rows of one score per class, and the class of each row; or both of one shape.
struct ScoredTargets {
  Output scores, target;
  int64_t classes = 0;  // of kClass
};

// The loss of each element, or of each row, whose mean training minimises. NOT_FOUND lists the objectives for targets
// of this kind: of "class" "sparse_softmax_cross_entropy", "sigmoid_cross_entropy" and "mse", the latter two of every
// score against 1 for the class and 0 for the others; of "labels" "sigmoid_cross_entropy"; of "numbers" "mse", "mae"
// and "huber" (Huber 1964, with delta 1).
using Objective = Output (*)(const Scope& scope, const ScoredTargets& targets);
StatusOr<Objective> FindObjective(TargetKind kind, std::string_view name);
std::vector<std::string> ObjectiveNames(TargetKind kind);  // the usual one first

// The mean over all elements, as the node `name`.
Output MeanOf(const Scope& scope, Output values, std::string_view name);

// Adds what evaluation reports beside the loss, each a mean over the batch, and returns (name, tensor): of classes
// "accuracy"; of labels "accuracy", the share of decisions (a score above 0 says yes) that are right, and
// "exact_match", the share of examples of which all are; of numbers "mse" and "mae".
std::vector<std::pair<std::string, std::string>> AddMetrics(const Scope& scope, TargetKind kind,
                                                            const ScoredTargets& targets);

}  // namespace rivulet
