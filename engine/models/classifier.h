// A model from its layers: placeholders, loss, metrics and, where training differs, a second graph over the same
// variables.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/layers/layers.h"
#include "engine/models/model_def.h"
#include "engine/models/objectives/objective.h"

namespace rivulet {

struct ClassifierOptions {
  std::vector<int64_t> input = {28, 28, 1};  // of one example
  // Bytes (the model sees byte / 255), floats, or integers below `vocabulary`.
  FeatureEncoding encoding = FeatureEncoding::kUint8;
  int64_t vocabulary = 0;
  // In the place of the three above: several inputs, or one with a name of its own.
  std::vector<InputSpec> inputs;
  TargetKind target = TargetKind::kClass;
  std::string loss = "sparse_softmax_cross_entropy";  // an objective for the target (FindObjective)
  SettingValues loss_settings = {};                   // of the objective; of what is not here its defaults
  std::vector<std::string> metrics = {};              // by name (AddMetrics); empty: those usual for the target
  int64_t classes = 0;                                // of kClass; 0: as many as the body's output is wide
};

// From one input batch to scores [batch, classes], or [batch, positions, classes] with a label for each position; of
// labels and numbers to [batch, …], one score for each label, or one prediction for each number.
using ModelBody = std::function<Output(Layers& layers, Output input)>;
// The same from several inputs, in the order of ClassifierOptions::inputs.
using JoiningBody = std::function<Output(Layers& layers, std::span<const Output> inputs)>;

// The model has the placeholders "image" ("tokens" for integers), or those of options.inputs, and "label", the outputs
// "logits" ("prediction" of numbers), "loss" and its metrics (AddMetrics), and "training/loss" where dropout or batch
// normalisation make training another graph. INVALID_ARGUMENT: what a layer or Graph::AddNode refused; a width that is
// not `classes`; an input whose name is taken or whose shape is none; several inputs for a ModelBody. Errors as
// FindObjective and AddMetrics.
StatusOr<ModelDef> Classifier(const ClassifierOptions& options, const ModelBody& body);
StatusOr<ModelDef> Classifier(const ClassifierOptions& options, const JoiningBody& body);

// Whether the model has a node of that name beside inputs and layers: neither can be called so.
bool IsClassifierNode(std::string_view name);

}  // namespace rivulet
