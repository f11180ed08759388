#include "engine/kernels/cpu/product/choose.h"

#include <algorithm>
#include <type_traits>

#include "engine/kernels/cpu/product/tile_dense.h"
#include "engine/kernels/cpu/vector/has_tiles.h"

namespace rivulet {
namespace {

constexpr int64_t kSmallRows = 16;   // of C, for A·B and A·Bᵀ: a batch
constexpr int64_t kFewColumns = 12;  // of C, for A·Bᵀ: an embedding's gradient

// Estimated time of a product, in nanoseconds of the processor of the fit (a Xeon at 3.3 GHz); only the ratio matters.
// Whole tiles are multiplied; each factor is split, which dominates in small products; results are read and written
// once for every 64 terms, and through a copy if their last tile is not full.
double SplitTime(const MatrixProduct& p) {
  const auto blocks = [](int64_t count, int64_t of) { return static_cast<double>((count + of - 1) / of); };
  const double pairs = blocks(p.k, 32), chunks = blocks(p.k, 64), m = static_cast<double>(p.m),
               n = static_cast<double>(p.n);
  const double copied_rows = (p.n % 16 != 0 ? m : 0) + (p.m % 16 != 0 ? n : 0);
  return 117 * blocks(p.m, 32) * blocks(p.n, 32) * pairs + 7 * (m + n) * pairs + 0.1 * m * n * chunks +
         20 * copied_rows * chunks;
}

// oneDNN's vectors: 165 GFLOP/s if factors are in the cache in reading order, 110 if A is transposed.
double LibraryTime(const MatrixProduct& p) { return p.flops() / (p.transpose_a ? 110 : 165); }

// Whether RunSplitProduct (split_product.h) is available and faster than a library's vector product.
bool PaysToSplit(const MatrixProduct& p) {
  constexpr double kGain = 0.75;
  return std::min({p.m, p.n, p.k}) >= 16 && SplitTime(p) < kGain * LibraryTime(p) && HasTiles();
}

ProductAlgorithm ChooseFloatProduct(const MatrixProduct& p) {
  if (p.transpose_b) {
    if (!p.transpose_a && p.m <= kSmallRows) return SmallAlgorithm(p);
    if (!p.transpose_a && p.n <= kFewColumns && p.k > kSmallDepth) return ProductAlgorithm::kDotOfFewColumns;
  } else if (p.k <= kSmallDepth || p.m <= kSmallRows) {
    return ProductAlgorithm::kPanel;
  }
  return PaysToSplit(p) ? ProductAlgorithm::kSplit : ProductAlgorithm::kLibrary;
}

}  // namespace

bool IsSmall(ProductAlgorithm algorithm) {
  return algorithm == ProductAlgorithm::kPanel || algorithm == ProductAlgorithm::kDot ||
         algorithm == ProductAlgorithm::kDotOfFewColumns || algorithm == ProductAlgorithm::kTransposeThenPanel;
}

ProductAlgorithm SmallAlgorithm(const MatrixProduct& p) {
  if (!p.transpose_b) return ProductAlgorithm::kPanel;
  return p.k <= kSmallDepth ? ProductAlgorithm::kTransposeThenPanel : ProductAlgorithm::kDot;
}

template <typename T>
ProductAlgorithm ChooseProduct(const MatrixProduct& p, const KernelPolicy& policy) {
  if (policy.portable) return ProductAlgorithm::kPortable;
  return std::is_same_v<T, float> ? ChooseFloatProduct(p) : ProductAlgorithm::kEigen;
}

template ProductAlgorithm ChooseProduct<float>(const MatrixProduct&, const KernelPolicy&);
template ProductAlgorithm ChooseProduct<double>(const MatrixProduct&, const KernelPolicy&);

BFloat16Algorithm ChooseBFloat16Product(const MatrixProduct& p, bool fused, const KernelPolicy& policy) {
  // Below this, a library call costs more than it saves.
  constexpr double kLibraryFlops = 2.0 * 64 * 64 * 64;
  if (policy.portable) return BFloat16Algorithm::kFloat32;
  if (!p.transpose_a && p.m > 0 && p.m <= kMaxTileBatch && p.n > 0 && p.k > 0 && HasTiles()) {
    if (!p.transpose_b) return BFloat16Algorithm::kTilesForward;
    if (!fused && p.k <= kMaxTileColumns) return BFloat16Algorithm::kTilesInputGradient;
  }
  return p.flops() < kLibraryFlops ? BFloat16Algorithm::kFloat32 : BFloat16Algorithm::kLibrary;
}

BatchAlgorithm ChooseOwnBatchProduct(const ProductShape& s) {
  constexpr int64_t kDotRows = 16;   // up to so many rows use a transposed B directly, if sums are long
  constexpr int64_t kDotDepth = 32;  // beyond this depth
  if (!s.b_transposed) return BatchAlgorithm::kPanel;
  return s.has_rows() && s.m <= kDotRows && s.k > kDotDepth ? BatchAlgorithm::kDot
                                                            : BatchAlgorithm::kTransposeThenPanel;
}

template <typename T>
BatchAlgorithm ChooseBatchProduct(const ProductShape& s, const KernelPolicy& policy) {
  constexpr double kLibraryFlops = 2.0 * 160 * 160 * 160;
  constexpr int64_t kLibrarySide = 64;  // and no side shorter
  if (s.m == 1 && s.n == 1) return BatchAlgorithm::kSingle;
  if (!std::is_same_v<T, float> || policy.portable) return BatchAlgorithm::kLoop;
  if (s.flops() >= kLibraryFlops && std::min({s.m, s.n, s.k}) >= kLibrarySide && (s.has_rows() || s.has_columns()))
    return BatchAlgorithm::kLibrary;
  return ChooseOwnBatchProduct(s);
}

template BatchAlgorithm ChooseBatchProduct<float>(const ProductShape&, const KernelPolicy&);
template BatchAlgorithm ChooseBatchProduct<double>(const ProductShape&, const KernelPolicy&);
template BatchAlgorithm ChooseBatchProduct<int32_t>(const ProductShape&, const KernelPolicy&);
template BatchAlgorithm ChooseBatchProduct<int64_t>(const ProductShape&, const KernelPolicy&);

// Number of products: the gain of each is about an eighth of the copy.
bool PaysToPackFactor(int64_t products) { return products >= 8; }

// The matrix unit takes as long for one row as for eight, and reads half as much again; some 2^14 elements compensate
// for its start-up.
bool PaysToSplitFactor(int64_t n, int64_t k, int64_t rows, int64_t products) {
  constexpr int64_t kFewestRows = 8, kShortestSide = 32, kFewestElements = int64_t{1} << 16;
  return PaysToPackFactor(products) && rows >= kFewestRows && n * k >= kFewestElements &&
         std::min(n, k) >= kShortestSide && HasTiles();
}

}  // namespace rivulet
