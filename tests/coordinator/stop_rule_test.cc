// Rules that end a run when its goal is reached.
#include "coordinator/stop_rule.h"

#include <cmath>

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Central = std::map<std::string, Measure>;

StopRule Rule(const std::string& stop, int64_t patience = 0) {
  RunConfig config;
  config.stop = stop;
  config.patience = patience;
  StatusOr<StopRule> rule = StopRule::Create(config);
  EXPECT_OK(rule);
  return *std::move(rule);
}

Central Tested(double accuracy, double loss = 1) { return {{"test/accuracy", {accuracy}}, {"test/loss", {loss}}}; }

// Of versions by their accuracy, those with which the run would end.
std::vector<int> EndsAt(StopRule rule, const std::vector<double>& accuracies) {
  std::vector<int> ends;
  for (size_t i = 0; i < accuracies.size(); ++i) {
    const StatusOr<std::string> why = rule.After(Tested(accuracies[i]));
    EXPECT_OK(why);
    if (why.ok() && !why->empty()) ends.push_back(static_cast<int>(i) + 1);
  }
  return ends;
}

TEST(StopRuleTest, Condition_EndsWithEachVersionOfWhichItHolds) {
  EXPECT_THAT(EndsAt(Rule("accuracy >= 0.9"), {0.5, 0.89, 0.9, 0.8, 0.95}), ElementsAre(3, 5));
  EXPECT_THAT(EndsAt(Rule(""), {0.5, 1}), ElementsAre());
}

TEST(StopRuleTest, MetricWithoutItsSet_IsTheValidationSetsWhereThereIsOne) {
  Central both = Tested(0.95);
  both["validation/accuracy"] = {0.5};
  EXPECT_EQ(*Rule("accuracy >= 0.9").After(both), "");
  EXPECT_EQ(*Rule("test/accuracy >= 0.9").After(both),
            "test/accuracy is 0.95, and run.stop is \"test/accuracy >= 0.9\"");
  both["validation/accuracy"] = {0.93};
  EXPECT_THAT(*Rule("accuracy >= 0.9").After(both), HasSubstr("validation/accuracy is 0.93"));
}

TEST(StopRuleTest, MetricThatNobodyMeasures_IsTold) {
  EXPECT_THAT(Rule("f1 > 0.5").After(Tested(1)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("run.stop is \"f1 > 0.5\", and versions are measured by test/accuracy, test/loss")));
  EXPECT_THAT(Rule("", 2).After({}), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("nothing (data.test)")));
}

TEST(StopRuleTest, Patience_CountsVersionsThatAreNoBetterThanTheBest) {
  EXPECT_THAT(EndsAt(Rule("", 2), {0.5, 0.6, 0.6, 0.55, 0.7}), ElementsAre(4));
  EXPECT_THAT(EndsAt(Rule("", 2), {0.5, 0.4, 0.6, 0.5, 0.61}), ElementsAre());
  EXPECT_THAT(EndsAt(Rule("", 1), {0.5, 0.5}), ElementsAre(2));
  StopRule by_loss = Rule("", 1);
  EXPECT_EQ(*by_loss.After({{"test/loss", {2.0}}}), "");
  EXPECT_EQ(*by_loss.After({{"test/loss", {1.0}}}), "");
  EXPECT_EQ(*by_loss.After({{"test/loss", {1.5}}}),
            "1 measured version after the best so far was no better, as many as run.patience says");
}

TEST(StopRuleTest, WhatIsNoNumber_IsNoBetterAndReachesNothing) {
  StopRule rule = Rule("loss < 1", 2);
  const Central lost = {{"test/loss", {std::nan("")}}};
  EXPECT_EQ(*rule.After(lost), "");
  EXPECT_EQ(*rule.After({{"test/loss", {2.0}}}), "");
  EXPECT_EQ(*rule.After(lost), "");
  EXPECT_NE(*rule.After(lost), "");
}

}  // namespace
}  // namespace rivulet
