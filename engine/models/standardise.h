// Standardisation of a model's numeric inputs, added to its graph.
#pragma once

#include <span>
#include <string_view>

#include "engine/base/status.h"
#include "engine/models/model_def.h"

namespace rivulet {

// Puts (x - mean) / deviation, computed in float32, between the placeholder of an input of floats and all that takes
// it. Means and deviations, one of each for every value of an example, are constants of the graph: whoever has the
// model sees values as all others do, and examples stay as they were written.
// NOT_FOUND: no input of that placeholder. INVALID_ARGUMENT: an input of bytes or integers; another number of means or
// of deviations than values; a deviation that is not above 0; what a float does not hold.
Status Standardise(ModelDef& model, std::string_view placeholder, std::span<const double> mean,
                   std::span<const double> deviation);

}  // namespace rivulet
