#include <gtest/gtest.h>

#include <memory>

#include "client/training/artifact_cache.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

// Values by number; `made` counts.
StatusOr<std::shared_ptr<const int>> NumberOf(DigestCache<int>& cache, int number, int& made) {
  return cache.Get(Sha256Of(fmt::format("{}", number)), [&]() -> StatusOr<std::shared_ptr<const int>> {
    ++made;
    return std::make_shared<const int>(number);
  });
}

TEST(DigestCacheTest, ForgetUnused_KeepsWhatSomebodyHolds) {
  DigestCache<int> cache(4);
  int made = 0;
  ASSERT_OK_AND_ASSIGN(const auto held, NumberOf(cache, 1, made));
  ASSERT_OK(NumberOf(cache, 2, made).status());
  cache.ForgetUnused();
  ASSERT_OK_AND_ASSIGN(const auto again, NumberOf(cache, 1, made));
  EXPECT_EQ(held, again);
  EXPECT_EQ(made, 2);
  ASSERT_OK(NumberOf(cache, 2, made).status());
  EXPECT_EQ(made, 3);
}

TEST(DigestCacheTest, ForgetUnused_WhileAValueIsMade_LeavesItsPlace) {
  DigestCache<int> cache(4);
  int made = 0;
  const auto nested = cache.Get(Sha256Of("outer"), [&]() -> StatusOr<std::shared_ptr<const int>> {
    cache.ForgetUnused();
    return std::make_shared<const int>(7);
  });
  ASSERT_OK(nested.status());
  ASSERT_OK_AND_ASSIGN(const auto found, cache.Get(Sha256Of("outer"), [&] {
    ++made;
    return StatusOr<std::shared_ptr<const int>>(std::make_shared<const int>(8));
  }));
  EXPECT_EQ(found, *nested);
  EXPECT_EQ(made, 0);
}

}  // namespace
}  // namespace rivulet
