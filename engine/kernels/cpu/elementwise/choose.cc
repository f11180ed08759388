#include "engine/kernels/cpu/elementwise/choose.h"

namespace rivulet {

PowerAlgorithm ChoosePower(const KernelPolicy& policy) {
  return policy.portable ? PowerAlgorithm::kPortable : PowerAlgorithm::kLibrary;
}

GeluAlgorithm ChooseGelu(const KernelPolicy& policy) {
  return policy.portable ? GeluAlgorithm::kFormula : GeluAlgorithm::kPieces;
}

// Passes down columns access memory that hardware does not
// prefetch, which is slow for long rows outside the caches.
SumsOfRows ChooseSumsOfRows(int64_t rows, int64_t row_bytes) {
  constexpr int64_t kFarBytes = int64_t{2} << 20, kWideRowBytes = 2048;
  return row_bytes >= kWideRowBytes && rows * row_bytes >= kFarBytes ? SumsOfRows::kAlongRows
                                                                     : SumsOfRows::kDownColumns;
}

}  // namespace rivulet
