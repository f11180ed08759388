// Models as a list of layers, such as a scenario's [[model.layers]]: docs/reference/models.md has the table of kinds
// and keys.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/base/setting.h"
#include "engine/base/status.h"
#include "engine/models/classifier.h"
#include "engine/models/model_def.h"

namespace rivulet {

using LayerSpec = SettingValues;  // "type" and the keys of that kind

// Makes a model from these layers. Each takes the output of the previous one, or of the layer or input named by its
// "from"; the last one gives the scores. The first layer takes the first input, which is also called "input". A layer
// without "name" is named by its kind and number ("conv1", "dense2"). Integer inputs get the vocabulary of the first
// embedding that uses them. INVALID_ARGUMENT: an unknown kind, key or name (names the nearest), a value of a wrong type
// or range, or sizes that do not match, each with the layer's number and name; an unused input.
StatusOr<ModelDef> ModelFromLayers(ClassifierOptions options, std::span<const LayerSpec> layers);

}  // namespace rivulet
