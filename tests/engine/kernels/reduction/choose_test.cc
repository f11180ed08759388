// The choice of a reduction's algorithm.
#include "engine/kernels/cpu/reduction/choose.h"

#include <gtest/gtest.h>

namespace rivulet::testing {
namespace {

ReductionAlgorithm Chosen(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides,
                          const std::vector<bool>& is_reduced) {
  return ChooseReduction(dims, strides, is_reduced);
}

TEST(ChooseReduction, TheLastAxisLongerThanOne_Decides) {
  EXPECT_EQ(Chosen({3, 4}, {4, 1}, {false, true}), ReductionAlgorithm::kRows);
  EXPECT_EQ(Chosen({3, 4}, {4, 1}, {true, false}), ReductionAlgorithm::kColumns);
  EXPECT_EQ(Chosen({3, 4, 1}, {4, 1, 1}, {true, false, true}), ReductionAlgorithm::kColumns);
  EXPECT_EQ(Chosen({3, 4, 1}, {4, 1, 1}, {false, true, false}), ReductionAlgorithm::kRows);
  EXPECT_EQ(Chosen({3, 4}, {1, 3}, {true, false}), ReductionAlgorithm::kRows);  // neighbours lie apart
  EXPECT_EQ(Chosen({1, 1}, {1, 1}, {true, true}), ReductionAlgorithm::kColumns);
}

}  // namespace
}  // namespace rivulet::testing
