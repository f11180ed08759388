// Split of each client's examples into training and evaluation examples.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "setup/partitioners/shares.h"

namespace rivulet {

// The same clients in as many shares as `percents`, which add up to 100. Each client's examples are put in an order
// drawn for it; the first share gets the first percents[0] percent of them, and so on, rounded so that they add up.
// Every client keeps at least one example in the first share; others may be empty. The choice is a function of (seed,
// name, number of examples). INVALID_ARGUMENT: a percentage below 1, another sum.
StatusOr<std::vector<Shares>> SplitEach(const Shares& shares, std::span<const int64_t> percents, uint64_t seed);

}  // namespace rivulet
