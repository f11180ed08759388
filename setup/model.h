// Construction of a scenario's model: a preset, layers, any graph file or ONNX model, or arrays without a graph.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/models/model_def.h"
#include "federated/scenario/scenario.h"
#include "federated/weights/base.h"
#include "federated/weights/model.h"

namespace rivulet {

// NOT_FOUND: an unknown preset (names the nearest) or no such file. INVALID_ARGUMENT: a file that is no graph,
// or a graph that lacks the tensors of model.loss, model.metrics, model.image_input or model.label_input; a
// tensor of model.arrays that cannot be trained and is not frozen; a tensor of model.weights, or a variable,
// without a counterpart of its name and shape; model.columns with numbers that are not the model's input.
// DATA_LOSS: model.arrays or model.weights is no safetensors file, or model.columns no file of columns. `base`:
// model.base, if it is already open; null: it is opened. Errors also as Base::Open; INVALID_ARGUMENT: a tensor
// of it is in model.arrays too, is no variable of the graph, or has another type or shape; it lacks a frozen
// variable.
StatusOr<ModelDef> ModelOf(const Scenario& scenario, const Base* base = nullptr);

// Opens the base that model.base of a scenario names. Errors as Base::Open, beginning with the key.
StatusOr<std::shared_ptr<const Base>> OpenBase(const Scenario& scenario);

// The feature that feeds an input: `named` if the scenario gives it, else the model's own name for it.
std::string FeatureOf(const ModelInput& input, const std::string& named);

// The values of model.arrays, in the layout of a plan that was built from that file. `bytes`: the file's content, if
// the caller has it; "": it is read. Errors as ModelFromSafetensors.
StatusOr<std::shared_ptr<const Model>> ArraysOf(const Scenario& scenario, std::shared_ptr<const ModelLayout> layout,
                                                std::string_view bytes = {});

// Check for callers that run the model. INVALID_ARGUMENT: model.arrays is given, so there is no graph; the message
// names the programs that train such a model.
Status RequireGraph(const Scenario& scenario);

}  // namespace rivulet
