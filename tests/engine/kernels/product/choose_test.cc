// The algorithm chosen for a product at the edges of its thresholds.
#include "engine/kernels/cpu/product/choose.h"

#include <gtest/gtest.h>

namespace rivulet::testing {
namespace {

// Sides below 16 are never taken apart for the matrix unit, so that the answers are those of every machine.
ProductAlgorithm Chosen(int64_t m, int64_t n, int64_t k, bool transpose_a = false, bool transpose_b = false) {
  return ChooseProduct<float>({m, n, k, transpose_a, transpose_b}, {});
}

TEST(ChooseProduct, FewRowsOrTerms_GoByRegisterBlocks) {
  EXPECT_EQ(Chosen(16, 13, 1000), ProductAlgorithm::kPanel);
  EXPECT_EQ(Chosen(1000, 13, 32), ProductAlgorithm::kPanel);
  EXPECT_EQ(Chosen(1000, 13, 32, /*transpose_a=*/true), ProductAlgorithm::kPanel);
  EXPECT_EQ(Chosen(17, 13, 33), ProductAlgorithm::kLibrary);
}

TEST(ChooseProduct, TransposedB_GoesByDotsWhereSumsAreLong) {
  EXPECT_EQ(Chosen(16, 13, 33, false, true), ProductAlgorithm::kDot);
  EXPECT_EQ(Chosen(16, 13, 32, false, true), ProductAlgorithm::kTransposeThenPanel);
  EXPECT_EQ(Chosen(17, 12, 33, false, true), ProductAlgorithm::kDotOfFewColumns);
  EXPECT_EQ(Chosen(17, 13, 33, false, true), ProductAlgorithm::kLibrary);
  EXPECT_EQ(Chosen(17, 12, 32, false, true), ProductAlgorithm::kLibrary);
  EXPECT_EQ(Chosen(16, 13, 33, true, true), ProductAlgorithm::kLibrary);
}

TEST(ChooseProduct, PortableAndDoubles_HaveOneAlgorithmEach) {
  EXPECT_EQ(ChooseProduct<float>({16, 13, 33}, {.portable = true}), ProductAlgorithm::kPortable);
  EXPECT_EQ(ChooseProduct<double>({16, 13, 33}, {.portable = true}), ProductAlgorithm::kPortable);
  EXPECT_EQ(ChooseProduct<double>({16, 13, 33}, {}), ProductAlgorithm::kEigen);
}

TEST(ChooseProduct, BFloat16WithoutPayingLibrary_GoesThroughFloat32) {
  EXPECT_EQ(ChooseBFloat16Product({64, 64, 63}, false, {}), BFloat16Algorithm::kFloat32);
  EXPECT_EQ(ChooseBFloat16Product({64, 64, 64}, false, {}), BFloat16Algorithm::kLibrary);
  EXPECT_EQ(ChooseBFloat16Product({64, 64, 64}, false, {.portable = true}), BFloat16Algorithm::kFloat32);
}

ProductShape Shape(int64_t m, int64_t n, int64_t k, bool b_transposed = false) {
  return {.m = m, .n = n, .k = k, .a_row = k, .a_k = 1, .b_transposed = b_transposed};
}

TEST(ChooseBatchProduct, SingleDotsSmallSidesAndLargeProducts) {
  EXPECT_EQ(ChooseBatchProduct<float>(Shape(1, 1, 100), {}), BatchAlgorithm::kSingle);
  EXPECT_EQ(ChooseBatchProduct<float>(Shape(2, 1, 100), {}), BatchAlgorithm::kPanel);
  EXPECT_EQ(ChooseBatchProduct<float>(Shape(16, 8, 33, true), {}), BatchAlgorithm::kDot);
  EXPECT_EQ(ChooseBatchProduct<float>(Shape(17, 8, 33, true), {}), BatchAlgorithm::kTransposeThenPanel);
  EXPECT_EQ(ChooseBatchProduct<float>(Shape(160, 160, 160), {}), BatchAlgorithm::kLibrary);
  EXPECT_EQ(ChooseBatchProduct<float>(Shape(160, 160, 159), {}), BatchAlgorithm::kPanel);
  ProductShape gaps = Shape(160, 160, 160);
  gaps.a_row = 161;
  EXPECT_EQ(ChooseBatchProduct<float>(gaps, {}), BatchAlgorithm::kPanel);
  EXPECT_EQ(ChooseBatchProduct<double>(Shape(160, 160, 160), {}), BatchAlgorithm::kLoop);
  EXPECT_EQ(ChooseBatchProduct<float>(Shape(160, 160, 160), {.portable = true}), BatchAlgorithm::kLoop);
}

}  // namespace
}  // namespace rivulet::testing
