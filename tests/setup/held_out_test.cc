// Examples held out of a training set.
#include "setup/held_out.h"

#include <gmock/gmock.h>

#include <set>

#include "tests/testing/memory_dataset.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::HasSubstr;
using testing::MemoryDataset;

std::vector<std::string> Content(const Dataset& data) {
  std::vector<std::string> all;
  for (int64_t i = 0; i < data.size(); ++i) EXPECT_OK(data.Read(i, all.emplace_back()));
  return all;
}

std::shared_ptr<const Dataset> Ascending(int n) {
  std::vector<std::string> records;
  for (int i = 0; i < n; ++i) records.push_back(fmt::format("{:03}", i));
  return std::make_shared<MemoryDataset>(std::move(records));
}

TEST(HoldOut, EveryExample_IsInOneOfBoth_InItsOrder) {
  const auto data = Ascending(40);
  ASSERT_OK_AND_ASSIGN(const auto parts, HoldOut(data, 0.25, 7));
  const std::vector<std::string> learnt = Content(*parts.first), held = Content(*parts.second);
  EXPECT_EQ(held.size(), 10u);
  EXPECT_TRUE(std::ranges::is_sorted(learnt));
  EXPECT_TRUE(std::ranges::is_sorted(held));
  std::set<std::string> all(learnt.begin(), learnt.end());
  all.insert(held.begin(), held.end());
  EXPECT_EQ(all.size(), 40u);
  EXPECT_NE(held.back(), "009");  // drawn, and not the first ten
  EXPECT_EQ(parts.second->Where(0), data->Where(std::stoi(held[0])));
}

TEST(HoldOut, SeedDecides_WhichTheyAre) {
  const auto data = Ascending(40);
  EXPECT_EQ(Content(*HoldOut(data, 0.25, 7)->second), Content(*HoldOut(data, 0.25, 7)->second));
  EXPECT_NE(Content(*HoldOut(data, 0.25, 7)->second), Content(*HoldOut(data, 0.25, 8)->second));
}

TEST(HoldOut, OfFewExamples_IsOneAtLeast_AndNotAll) {
  EXPECT_EQ(HoldOut(Ascending(3), 0.01, 1)->second->size(), 1);
  EXPECT_THAT(testing::ErrorOf(HoldOut(Ascending(1), 0.5, 1)),
              HasSubstr("data.validation_fraction = 0.5 holds out 1 of 1 examples"));
}

}  // namespace
}  // namespace rivulet
