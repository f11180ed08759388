// Split of each client's examples into training and evaluation examples.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "setup/partitioners/shares.h"

namespace rivulet {

// The same clients in as many shares as `percents`, which add up to 100: of each client's examples, in an order drawn
// for it, the first percents[0] in a hundred, and so on, rounded so that they add up. Every client keeps at least one
// example in the first; another may give it none. Which examples is a function of (seed, name, how many it has).
// INVALID_ARGUMENT: a percentage below 1, another sum.
StatusOr<std::vector<Shares>> SplitEach(const Shares& shares, std::span<const int64_t> percents, uint64_t seed);

}  // namespace rivulet
