// Initialisation of a model from given values.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/models/model_def.h"

namespace rivulet {

// Gives the model a new target that assigns these values (by variable), which its graph then holds, and to every other
// variable what the old target assigned. The old target's nodes stay: a variable's place in the graph is its place in
// the layout. NOT_FOUND: no such variable (names the nearest). INVALID_ARGUMENT: another type or shape than the
// variable's.
Status SetFirstValues(ModelDef& model, const std::vector<std::pair<std::string, Tensor>>& values);

}  // namespace rivulet
