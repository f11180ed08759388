// The choice of an algorithm for strided copies.
#include "engine/kernels/cpu/movement/choose.h"

#include <gtest/gtest.h>

#include <vector>

namespace rivulet::testing {
namespace {

CopyAlgorithm Chosen(std::vector<int64_t> dims, std::vector<int64_t> to, std::vector<int64_t> from, size_t bytes = 4) {
  const auto walk = MakeWalk<2>(dims, {std::move(to), std::move(from)});
  EXPECT_TRUE(walk.ok());
  return ChooseCopy(*walk, bytes);
}

TEST(ChooseCopy, Transposes_GoByTilesFromFourRowsAndColumnsOn) {
  EXPECT_EQ(Chosen({5, 7}, {7, 1}, {1, 5}), CopyAlgorithm::kTransposeTiles);
  EXPECT_EQ(Chosen({4, 4}, {4, 1}, {1, 4}), CopyAlgorithm::kTransposeTiles);
  EXPECT_EQ(Chosen({3, 7}, {7, 1}, {1, 3}), CopyAlgorithm::kRows);
  EXPECT_EQ(Chosen({7, 3}, {3, 1}, {1, 7}), CopyAlgorithm::kRows);
}

TEST(ChooseCopy, RowsOfAFewLengths_GoByBlocks) {
  for (const int64_t elements : {4, 8, 16, 32, 64})
    EXPECT_EQ(Chosen({5, elements}, {elements, 1}, {100, 1}), CopyAlgorithm::kBlocks) << elements;
  EXPECT_EQ(Chosen({5, 16}, {16, 1}, {100, 1}, 1), CopyAlgorithm::kBlocks);
  for (const int64_t elements : {1, 5, 65, 128})
    EXPECT_EQ(Chosen({5, elements}, {200, 1}, {300, 1}), CopyAlgorithm::kRows) << elements;
  EXPECT_EQ(Chosen({16}, {1}, {1}), CopyAlgorithm::kRows);
}

}  // namespace
}  // namespace rivulet::testing
