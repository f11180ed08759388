// Distribution of a step's tasks to processes that start together and wait for the last one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rivulet {

// A list of indices of `costs` for each of `capacities` (above 0: its number of simultaneous tasks): the most expensive
// first, each to the process that would finish it soonest (Graham 1969: at most 4/3 of the optimum). A pure function;
// every index occurs once, ascending in its list.
std::vector<std::vector<size_t>> SplitByCost(std::span<const int64_t> costs, std::span<const int64_t> capacities);

}  // namespace rivulet
