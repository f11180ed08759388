#include "federated/aggregation/sum_array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace rivulet {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using IntegerSums = SumArray<int64_t>;

// As long as recycled memory begins.
constexpr size_t kRecycledLength = (size_t{4} << 20) / sizeof(int64_t) + 7;

TEST(SumArray, RecycledMemory_IsZeros) {
  auto first = std::make_unique<IntegerSums>(kRecycledLength);
  for (int64_t& sum : *first) sum = 5;
  const int64_t* const memory = first->data();
  first.reset();
  const IntegerSums next(kRecycledLength), beside(kRecycledLength);
  EXPECT_EQ(next.data(), memory);
  EXPECT_NE(beside.data(), memory);
  EXPECT_THAT(next, Each(0));
}

TEST(SumArray, CopyAndMove) {
  IntegerSums sums = {1, -2, 3};
  IntegerSums copy = sums;
  copy[0] = 7;
  EXPECT_THAT(sums, ElementsAre(1, -2, 3));
  EXPECT_FALSE(copy == sums);
  const int64_t* const memory = copy.data();
  const IntegerSums moved = std::move(copy);
  EXPECT_EQ(moved.data(), memory);
  EXPECT_TRUE(copy.empty());  // NOLINT: a moved array is empty
  sums = moved;
  EXPECT_EQ(sums, moved);
  sums = IntegerSums();
  EXPECT_EQ(sums.size(), 0U);
  EXPECT_EQ(std::span(sums).size(), 0U);
}

TEST(SumArray, File_GoesWithTheArrayAndNoCopy) {
  std::vector<int64_t> place(3, 9);
  const std::shared_ptr<std::byte> file(reinterpret_cast<std::byte*>(place.data()), [](std::byte*) {});
  {
    IntegerSums sums(3, file);
    EXPECT_TRUE(sums.in_file());
    EXPECT_THAT(place, Each(0));
    sums[1] = 4;
    const IntegerSums copy = sums;
    EXPECT_FALSE(copy.in_file());
    EXPECT_THAT(copy, ElementsAre(0, 4, 0));
    const IntegerSums moved = std::move(sums);
    EXPECT_TRUE(moved.in_file());
    EXPECT_FALSE(sums.in_file());  // NOLINT: a moved array has no file
    EXPECT_EQ(file.use_count(), 2);
  }
  EXPECT_EQ(file.use_count(), 1);
  EXPECT_THAT(place, ElementsAre(0, 4, 0));
}

}  // namespace
}  // namespace rivulet
