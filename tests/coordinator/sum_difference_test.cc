#include "coordinator/sum_difference.h"

#include <gmock/gmock.h>

namespace rivulet {
namespace {

using ::testing::HasSubstr;

TEST(SumDifferenceTest, FewClientsInOneSumAlone_AreWarnedOf) {
  SumDifference sums(3);
  EXPECT_EQ(sums.Read({"a", "b", "c", "d"}), "");
  EXPECT_EQ(sums.Read({"a", "b", "c", "d"}), "") << "there is no difference";
  EXPECT_THAT(sums.Read({"a", "b", "c"}), HasSubstr("differ by 1 client, fewer than privacy.min_survivors = 3"));
  // One that came and one that went.
  EXPECT_THAT(sums.Read({"a", "b", "d"}), HasSubstr("differ by 2 clients, fewer"));
  EXPECT_EQ(sums.Read({"a", "b", "e", "f"}), "") << "the difference is as many as a sum may have";
}

TEST(SumDifferenceTest, SumsThatTakeTheirMinimumOfOne_MayDifferByAny) {
  SumDifference sums(1);
  EXPECT_EQ(sums.Read({"a", "b"}), "");
  EXPECT_EQ(sums.Read({"a"}), "");
}

}  // namespace
}  // namespace rivulet
