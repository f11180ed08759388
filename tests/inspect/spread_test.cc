#include "inspect/spread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

TEST(EqualButForSeed_, SeedsAndNamesDoNotPartRuns) {
  EXPECT_THAT(EqualButForSeed({{{"algorithm.name", "\"fedavg\""}, {"run.seed", "1"}},
                               {{"algorithm.name", "\"fedprox\""}, {"run.seed", "1"}},
                               {{"algorithm.name", "\"fedavg\""}, {"run.seed", "2"}, {"run.name", "\"again\""}}}),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1)));
  EXPECT_THAT(EqualButForSeed({}), SizeIs(0));
}

TEST(MeanCurve_, HasTheRoundsThatAllCurvesHave) {
  const Curve one{.name = "test/loss", .points = {{1, 3}, {2, 2}, {3, 1}}},
      other{.name = "test/loss", .points = {{1, 1}, {3, 2}}};
  const auto mean = MeanCurve({&one, &other});
  ASSERT_THAT(mean, SizeIs(2));
  EXPECT_EQ(mean[0].first, 1);
  EXPECT_DOUBLE_EQ(mean[0].second.mean, 2);
  EXPECT_DOUBLE_EQ(mean[0].second.deviation, std::sqrt(2.0));
  EXPECT_EQ(mean[1].first, 3);
  EXPECT_DOUBLE_EQ(mean[1].second.mean, 1.5);
  EXPECT_EQ(mean[1].second.runs, 2u);
  EXPECT_THAT(MeanCurve({}), SizeIs(0));
}

}  // namespace
}  // namespace rivulet
