// Choice of a reduction's loop over its input. The table in README.md lists the algorithms.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rivulet {

enum class ReductionAlgorithm {
  kRows,     // each result by itself, in 16 virtual lanes
  kColumns,  // neighbouring results side by side, down the rows
};

// Of an input of these sizes and strides, per axis.
ReductionAlgorithm ChooseReduction(std::span<const int64_t> dims, std::span<const int64_t> strides,
                                   const std::vector<bool>& is_reduced);

// Whether a result is best written past the caches: where none holds it until it is read, its lines, which are written
// whole, need not be read first. That is a third of the memory traffic of a normalisation.
bool PaysToWritePastCaches(int64_t bytes);

}  // namespace rivulet
