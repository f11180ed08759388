// Distribution of a step's tasks to processes that start together and wait for the last one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rivulet {

// Indices of `costs`, a list for each of `capacities` (above 0: how many tasks it works on at a time): the costliest
// first, each to whoever would be done with it soonest (Graham 1969: at most 4/3 of the best there is). A pure
// function; every index comes once, ascending in its list.
std::vector<std::vector<size_t>> SplitByCost(std::span<const int64_t> costs, std::span<const int64_t> capacities);

}  // namespace rivulet
