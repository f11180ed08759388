#include "engine/kernels/cpu/elementwise/choose.h"

namespace rivulet {

PowerAlgorithm ChoosePower(const KernelPolicy& policy) {
  return policy.portable ? PowerAlgorithm::kPortable : PowerAlgorithm::kLibrary;
}

GeluAlgorithm ChooseGelu(const KernelPolicy& policy) {
  return policy.portable ? GeluAlgorithm::kFormula : GeluAlgorithm::kPieces;
}

// Down columns a walk asks for memory that no hardware fetches ahead of it: that costs where rows are long and no cache
// holds them.
SumsOfRows ChooseSumsOfRows(int64_t rows, int64_t row_bytes) {
  constexpr int64_t kFarBytes = int64_t{2} << 20, kWideRowBytes = 2048;
  return row_bytes >= kWideRowBytes && rows * row_bytes >= kFarBytes ? SumsOfRows::kAlongRows
                                                                     : SumsOfRows::kDownColumns;
}

}  // namespace rivulet
