// Models that predict the next token at every position of a text.
#pragma once

#include "engine/base/status.h"
#include "engine/models/classifier.h"
#include "engine/models/model_def.h"

namespace rivulet {

// Builds a model with the placeholders "tokens" and "label" (int64 [?, length], numbers below `vocabulary`). `body`
// maps tokens to logits [batch, length, vocabulary]. The outputs are "loss" (mean sparse softmax cross-entropy) and
// "accuracy". Positions with label `padding` count in neither. The body's layers must be the same in training and
// evaluation. `metrics` besides "accuracy" use the same positions: "exact_match" and "perplexity".
StatusOr<ModelDef> NextTokenModel(int64_t vocabulary, int64_t length, int64_t padding, const ModelBody& body,
                                  std::span<const std::string> metrics = {});

}  // namespace rivulet
