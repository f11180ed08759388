#include "engine/base/recycled_pages.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace rivulet {
namespace {

using Array = std::vector<int64_t, RecycledPages<int64_t>>;
constexpr size_t kLong = LargePages<int64_t>::kFrom / sizeof(int64_t) + 7;

TEST(RecycledPages, NextArrayOfItsSize_HasItsMemoryAndZeros) {
  auto first = std::make_unique<Array>(kLong, 5);
  const int64_t* const memory = first->data();
  first.reset();
  const Array next(kLong), beside(kLong);
  EXPECT_EQ(next.data(), memory);
  EXPECT_NE(beside.data(), memory);
  for (const int64_t value : next) ASSERT_EQ(value, 0);
}

TEST(RecycledPages, ArrayOfAnotherSize_HasOther) {
  auto first = std::make_unique<Array>(kLong, 5);
  const int64_t* const memory = first->data();
  const Array beside(kLong + 1);
  first.reset();
  const Array other(kLong + 1), same(kLong);
  EXPECT_NE(other.data(), memory);
  EXPECT_EQ(same.data(), memory);
}

TEST(RecycledPages, ShortArray_IsAligned) {
  const Array small(3);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(small.data()) % 64, 0U);
  const Array large(kLong);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large.data()) % LargePages<int64_t>::kPage, 0U);
}

}  // namespace
}  // namespace rivulet
