#include "engine/kernels/cpu/movement/choose.h"

namespace rivulet {

CopyAlgorithm ChooseCopy(const StridedWalk<2>& walk, size_t element_bytes) {
  if (walk.axes < 2) return CopyAlgorithm::kRows;
  const auto last = static_cast<size_t>(walk.axes - 1);
  if (walk.strides[0][last] != 1) return CopyAlgorithm::kRows;
  constexpr int64_t kFewest = kTransposeTile / 4;
  if (walk.strides[1][last - 1] == 1 && walk.dims[last] >= kFewest && walk.dims[last - 1] >= kFewest)
    return CopyAlgorithm::kTransposeTiles;
  // Lengths of the rows of attention heads: a copy of fixed size takes a few instructions, a call several times as
  // long.
  const size_t bytes = static_cast<size_t>(walk.dims[last]) * element_bytes;
  const bool fixed = bytes == 16 || bytes == 32 || bytes == 64 || bytes == 128 || bytes == 256;
  return walk.strides[1][last] == 1 && fixed ? CopyAlgorithm::kBlocks : CopyAlgorithm::kRows;
}

}  // namespace rivulet
