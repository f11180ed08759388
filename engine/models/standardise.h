// Standardisation of a model's numeric inputs, added to its graph.
#pragma once

#include <span>
#include <string_view>

#include "engine/base/status.h"
#include "engine/models/model_def.h"

namespace rivulet {

// Adds (x - mean) / deviation, computed in float32, between the placeholder of a float input and its consumers. There
// is a mean and a deviation for every value of an example. They are constants of the graph: everyone who has the model
// uses the same, and stored examples are unchanged. NOT_FOUND: no input has that placeholder. INVALID_ARGUMENT: an
// input of bytes or integers; a wrong number of means or deviations; a deviation that is not above 0; a number that a
// float cannot hold.
Status Standardise(ModelDef& model, std::string_view placeholder, std::span<const double> mean,
                   std::span<const double> deviation);

}  // namespace rivulet
