// A model built from its layers: placeholders, loss, metrics and, if training differs, a second graph over the same
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
  // Used instead of the three fields above: several inputs, or one input with a custom name.
  std::vector<InputSpec> inputs;
  TargetKind target = TargetKind::kClass;
  std::string loss = "sparse_softmax_cross_entropy";  // an objective for the target (FindObjective)
  SettingValues loss_settings = {};                   // of the objective; missing settings have defaults
  std::vector<std::string> metrics = {};              // names (AddMetrics); empty: the usual ones for the target
  int64_t classes = 0;                                // of kClass; 0: the width of the body's output
};

// Builds scores from one input batch: [batch, classes], or [batch, positions, classes] if each position has a label.
// For labels and numbers: [batch, …], with one score per label or one prediction per number.
using ModelBody = std::function<Output(Layers& layers, Output input)>;
// The same for several inputs, in the order of ClassifierOptions::inputs.
using JoiningBody = std::function<Output(Layers& layers, std::span<const Output> inputs)>;

// Builds the model. Its placeholders are "image" ("tokens" for integers), or those of options.inputs, and "label". Its
// outputs are "logits" ("prediction" for numbers), "loss", the metrics (AddMetrics), and "training/loss" if dropout or
// batch normalisation require a separate training graph. INVALID_ARGUMENT: a refusal by a layer or Graph::AddNode; a
// width other than `classes`; an input whose name is taken or whose shape is invalid; several inputs for a ModelBody.
// Other errors as FindObjective and AddMetrics.
StatusOr<ModelDef> Classifier(const ClassifierOptions& options, const ModelBody& body);
StatusOr<ModelDef> Classifier(const ClassifierOptions& options, const JoiningBody& body);

// Returns true for names of the model's own nodes, which inputs and layers cannot have.
bool IsClassifierNode(std::string_view name);

}  // namespace rivulet
