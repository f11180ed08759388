// Choice of a reduction's loop over its input. The table in README.md lists the algorithms.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rivulet {

enum class ReductionAlgorithm {
  kRows,     // each result separately, in 16 virtual lanes
  kColumns,  // adjacent results in parallel, row by row
};

// For an input of these sizes and strides, per axis.
ReductionAlgorithm ChooseReduction(std::span<const int64_t> dims, std::span<const int64_t> strides,
                                   const std::vector<bool>& is_reduced);

// Returns true if a result should be written past the caches: if no cache would hold it until it is read, its lines,
// which are written completely, need not be read first. That is a third of a normalisation's memory traffic.
bool PaysToWritePastCaches(int64_t bytes);

}  // namespace rivulet
