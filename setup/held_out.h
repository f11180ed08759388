// Split of a data set in two: training examples and validation examples.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "engine/base/status.h"
#include "engine/data/dataset.h"

namespace rivulet {

// Of n examples round(fraction · n), at least one, are held out and come second; both keep the data set's order. Which
// they are follows from `seed` and n. INVALID_ARGUMENT: none would be left to learn from.
using LearntAndHeldOut = std::pair<std::shared_ptr<const Dataset>, std::shared_ptr<const Dataset>>;
StatusOr<LearntAndHeldOut> HoldOut(const std::shared_ptr<const Dataset>& data, double fraction, uint64_t seed);

}  // namespace rivulet
