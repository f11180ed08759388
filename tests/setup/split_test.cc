#include "setup/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::HasSubstr;

Shares Numbered(std::vector<uint64_t> ends) {
  std::vector<uint32_t> examples(ends.back());
  std::iota(examples.begin(), examples.end(), 0u);
  return Shares::OfNumbered(std::move(ends), std::move(examples));
}

TEST(SplitTest, PartsOfAClient_AreItsExamplesOnce) {
  const Shares shares = Numbered({10, 15, 16});
  const auto parts = SplitEach(shares, std::vector<int64_t>{80, 10, 10}, 1);
  ASSERT_OK(parts);
  ASSERT_EQ(parts->size(), 3u);
  const size_t expected[3][3] = {{8, 1, 1}, {4, 1, 0}, {1, 0, 0}};  // 4, 4.5, 5 of five, rounded: 4, 5, 5
  for (int64_t client = 0; client < 3; ++client) {
    std::vector<uint32_t> all;
    for (size_t part = 0; part < 3; ++part) {
      const auto mine = (*parts)[part].ExamplesOf(client);
      EXPECT_EQ(mine.size(), expected[client][part]) << client << " " << part;
      all.insert(all.end(), mine.begin(), mine.end());
    }
    std::sort(all.begin(), all.end());
    EXPECT_TRUE(std::ranges::equal(all, shares.ExamplesOf(client)));
  }
  EXPECT_EQ((*parts)[1].NameAt(2), "client-00002");
  const auto other = SplitEach(shares, std::vector<int64_t>{80, 10, 10}, 2);
  EXPECT_FALSE(std::ranges::equal((*other)[0].ExamplesOf(0), (*parts)[0].ExamplesOf(0)));
}

TEST(SplitTest, EveryClient_HasSomethingToLearnFrom) {
  const auto parts = SplitEach(Numbered({1, 2}), std::vector<int64_t>{1, 99}, 1);
  ASSERT_OK(parts);
  EXPECT_EQ((*parts)[0].ExamplesOf(0).size(), 1u);
  EXPECT_EQ((*parts)[1].ExamplesOf(0).size(), 0u);
  EXPECT_EQ((*parts)[0].ExamplesOf(1).size(), 1u);
}

TEST(SplitTest, NamedClients_KeepTheirNames) {
  const auto parts = SplitEach(*Shares::OfNamed({"ann", "bob"}, {2, 4}, {3, 2, 1, 0}), std::vector<int64_t>{50, 50}, 1);
  ASSERT_OK(parts);
  EXPECT_EQ((*parts)[1].NameAt(1), "bob");
  EXPECT_EQ((*parts)[1].ExamplesOf(1).size(), 1u);
}

TEST(SplitTest, PartsThatAreNoPercents_AreRefused) {
  EXPECT_THAT(testing::ErrorOf(SplitEach(Numbered({4}), std::vector<int64_t>{80, 10}, 1)),
              HasSubstr("the parts add up to 90 percent"));
  EXPECT_THAT(testing::ErrorOf(SplitEach(Numbered({4}), std::vector<int64_t>{100, 0}, 1)),
              HasSubstr("a part of 0 percent"));
}

}  // namespace
}  // namespace rivulet
