#include "engine/base/recycled_pages.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace rivulet {
namespace {

constexpr size_t kLong = LargePages<std::byte>::kFrom + 56;

TEST(RecycledPages, NextArrayOfItsSize_HasItsMemory) {
  void* const first = AllocateRecycled(kLong);
  FreeRecycled(first, kLong);
  void* const next = AllocateRecycled(kLong);
  void* const beside = AllocateRecycled(kLong);
  EXPECT_EQ(next, first);
  EXPECT_NE(beside, first);
  FreeRecycled(next, kLong);
  FreeRecycled(beside, kLong);
}

TEST(RecycledPages, ArrayOfAnotherSize_HasOther) {
  void* const first = AllocateRecycled(kLong);
  void* const beside = AllocateRecycled(kLong + 1);
  FreeRecycled(first, kLong);
  void* const other = AllocateRecycled(kLong + 1);
  void* const same = AllocateRecycled(kLong);
  EXPECT_NE(other, first);
  EXPECT_EQ(same, first);
  FreeRecycled(beside, kLong + 1);
  FreeRecycled(other, kLong + 1);
  FreeRecycled(same, kLong);
}

TEST(RecycledPages, ShortArray_IsAligned) {
  void* const small = AllocateRecycled(3);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(small) % 64, 0U);
  void* const large = AllocateRecycled(kLong);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large) % LargePages<std::byte>::kPage, 0U);
  FreeRecycled(small, 3);
  FreeRecycled(large, kLong);
}

}  // namespace
}  // namespace rivulet
