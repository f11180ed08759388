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

// The model of these layers, each taking the output of the one before, or of the layer or input that its "from" names;
// the last gives the scores. The first layer takes the first input, which is also called "input". A layer without
// "name" is called after its kind and number ("conv1", "dense2"). Integers as input get the vocabulary of the first
// embedding that takes them. INVALID_ARGUMENT: an unknown kind, key or name (with the nearest), a value of a wrong type
// or range, sizes that do not fit, each naming the layer by number and name; an input that no layer takes.
StatusOr<ModelDef> ModelFromLayers(ClassifierOptions options, std::span<const LayerSpec> layers);

}  // namespace rivulet
