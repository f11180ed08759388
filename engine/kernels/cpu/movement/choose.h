// Choice of the copy loop for strided elements. The table in README.md lists the algorithms.
#pragma once

#include <cstddef>

#include "engine/kernels/cpu/strided/strided.h"

namespace rivulet {

enum class CopyAlgorithm {
  kRows,            // row by row: memcpy, fill, or element by element
  kBlocks,          // rows without gaps, of one of a few lengths, by copies of fixed size
  kTransposeTiles,  // a matrix written by rows and read by columns, by tiles of a cache line in both directions
};

constexpr int64_t kTransposeTile = 16;  // rows and columns

// For a walk over output (0) and input (1), of elements of `element_bytes`.
CopyAlgorithm ChooseCopy(const StridedWalk<2>& walk, size_t element_bytes);

}  // namespace rivulet
