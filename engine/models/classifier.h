// A model from its layers: placeholders, loss, metrics and, where training differs, a second graph over the same
// variables.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/layers/layers.h"
#include "engine/models/model_def.h"

namespace rivulet {

struct ClassifierOptions {
  std::vector<int64_t> input = {28, 28, 1};  // of one example
  // Bytes (the model sees byte / 255), floats, or integers below `vocabulary`.
  FeatureEncoding encoding = FeatureEncoding::kUint8;
  int64_t vocabulary = 0;
  // "sparse_softmax_cross_entropy" of logits; "sigmoid_cross_entropy" of logits, each class by itself, and "mse", both
  // against 1 for the label's class and 0 for the others.
  std::string loss = "sparse_softmax_cross_entropy";
  int64_t classes = 0;  // 0: as many as the body's output is wide
};

// From one input batch to scores [batch, classes], or [batch, positions, classes] with a label for each position.
using ModelBody = std::function<Output(Layers& layers, Output input)>;

// The model has the placeholders "image" ("tokens" for integers) and "label", the outputs "logits", "loss" and
// "accuracy", and "training/loss" where dropout or batch normalisation make training another graph. INVALID_ARGUMENT:
// what a layer or Graph::AddNode refused; a width that is not `classes`; an unknown loss (NOT_FOUND names the nearest).
StatusOr<ModelDef> Classifier(const ClassifierOptions& options, const ModelBody& body);
std::vector<std::string> LossNames();

}  // namespace rivulet
