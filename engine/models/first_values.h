// Initialisation of a model from given values.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/models/model_def.h"

namespace rivulet {

// Gives the model a new init target. It assigns these values, by variable name, which become part of the graph; other
// variables keep their assignments from the old target. The old target's nodes stay, because a variable's position in
// the graph determines its position in the layout. NOT_FOUND: an unknown variable (names the nearest).
// INVALID_ARGUMENT: type or shape differ from the variable's.
Status SetFirstValues(ModelDef& model, const std::vector<std::pair<std::string, Tensor>>& values);

}  // namespace rivulet
