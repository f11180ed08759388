#include "engine/kernels/cpu/reduction/choose.h"

#include <cstddef>

namespace rivulet {

// The last axis longer than one element decides: columns if it is kept and has no gaps.
ReductionAlgorithm ChooseReduction(std::span<const int64_t> dims, std::span<const int64_t> strides,
                                   const std::vector<bool>& is_reduced) {
  for (size_t axis = dims.size(); axis-- > 0;) {
    if (dims[axis] == 1) continue;
    return is_reduced[axis] || strides[axis] != 1 ? ReductionAlgorithm::kRows : ReductionAlgorithm::kColumns;
  }
  return ReductionAlgorithm::kColumns;
}

bool PaysToWritePastCaches(int64_t bytes) { return bytes >= int64_t{32} << 20; }

}  // namespace rivulet
