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

// NOT_FOUND: an unknown preset (names the nearest) or no such file. INVALID_ARGUMENT: a file that is no graph, or a
// graph without what model.loss, model.metrics, model.image_input and model.label_input name; a tensor of model.arrays
// that cannot be trained and is not frozen; a tensor of model.weights, or a variable, that has no equal of its name and
// shape; model.columns whose numbers the model is not fed with. DATA_LOSS: model.arrays or model.weights is no
// safetensors file, model.columns none of columns.
// `base`: model.base, where it is open; null: it is opened. Errors also as Base::Open; INVALID_ARGUMENT: a tensor of it
// is in model.arrays too, or is no variable of a graph, or has another type or shape; a frozen variable that it has
// not.
StatusOr<ModelDef> ModelOf(const Scenario& scenario, const Base* base = nullptr);

// The base that a scenario with model.base names. Errors as Base::Open, beginning with the key.
StatusOr<std::shared_ptr<const Base>> OpenBase(const Scenario& scenario);

// The feature that feeds an input: `named` where the scenario names it, or the model's own name for it.
std::string FeatureOf(const ModelInput& input, const std::string& named);

// The values of model.arrays, in the layout of a plan that was built from that file. `bytes`: the file, where somebody
// has brought it; "": it is read. Errors as ModelFromSafetensors.
StatusOr<std::shared_ptr<const Model>> ArraysOf(const Scenario& scenario, std::shared_ptr<const ModelLayout> layout,
                                                std::string_view bytes = {});

// For what runs the model itself. INVALID_ARGUMENT: model.arrays is given, so that there is nothing to run; says who
// trains such a model.
Status RequireGraph(const Scenario& scenario);

}  // namespace rivulet
