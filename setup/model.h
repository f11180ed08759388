// The model a scenario names: a preset, layers, or a graph file or ONNX model made by anyone.
#pragma once

#include "engine/base/status.h"
#include "engine/models/model_def.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

// NOT_FOUND: an unknown preset (names the nearest) or no such file. INVALID_ARGUMENT: a file that is no graph, or a
// graph without what model.loss, model.metrics, model.image_input and model.label_input name.
StatusOr<ModelDef> ModelOf(const Scenario& scenario);

}  // namespace rivulet
