// Split of a data set in two: training examples and validation examples.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "engine/base/status.h"
#include "engine/data/dataset.h"

namespace rivulet {

// Splits n examples; the second part is held out: round(fraction · n) of them, at least one. Both keep the data set's
// order. The choice depends on `seed` and n alone. INVALID_ARGUMENT: no training example would be left.
using LearntAndHeldOut = std::pair<std::shared_ptr<const Dataset>, std::shared_ptr<const Dataset>>;
StatusOr<LearntAndHeldOut> HoldOut(const std::shared_ptr<const Dataset>& data, double fraction, uint64_t seed);

}  // namespace rivulet
