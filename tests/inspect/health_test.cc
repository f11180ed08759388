#include "inspect/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Grade = Health::Grade;

// Ten committed rounds of ten tasks each, and an accuracy that rises.
RunOverview TenRounds() {
  RunOverview run;
  run.run.status = "finished";
  Curve accuracy{.name = "test/accuracy", .points = {}};
  for (int64_t round = 1; round <= 10; ++round) {
    RoundRow& row = run.attempts.emplace_back();
    row.round = round;
    row.status = "committed";
    row.selected = row.folded = 10;
    accuracy.points.emplace_back(round, 0.05 * static_cast<double>(round));
  }
  run.curves.push_back(std::move(accuracy));
  return run;
}

TEST(HealthOf_, RunWithoutFaults_IsHealthy) {
  const Health health = HealthOf(TenRounds(), nullptr);
  EXPECT_EQ(health.grade, Grade::kHealthy);
  EXPECT_THAT(health.reasons, IsEmpty());
}

TEST(HealthOf_, Failed_SaysWhy) {
  RunOverview run = TenRounds();
  run.run.status = "failed";
  run.run.reason = "the disk is full";
  EXPECT_EQ(HealthOf(run, nullptr).grade, Grade::kFailed);
  EXPECT_THAT(HealthOf(run, nullptr).reasons, ElementsAre("the disk is full"));
}

TEST(HealthOf_, InterruptedAndPaused_NeedALook) {
  RunOverview run = TenRounds();
  run.run.status = "interrupted";
  EXPECT_THAT(HealthOf(run, nullptr).reasons, ElementsAre("interrupted after round 10; it can be resumed"));
  const Pause pause{.by = "alice", .at = "", .reason = "maintenance"};
  run.run.status = "running";
  EXPECT_EQ(HealthOf(run, nullptr).grade, Grade::kHealthy);
  EXPECT_EQ(HealthOf(run, &pause).grade, Grade::kAttention);
  EXPECT_THAT(HealthOf(run, &pause).reasons, ElementsAre("paused by alice: maintenance"));
  run.run.status = "finished";  // the pause is over with the process
  EXPECT_EQ(HealthOf(run, &pause).grade, Grade::kHealthy);
}

TEST(HealthOf_, FewFailedTasks_AreNamedAndHealthy) {
  RunOverview run = TenRounds();
  run.attempts[3].failed = 5;
  run.attempts[3].folded = 5;
  EXPECT_EQ(HealthOf(run, nullptr).grade, Grade::kHealthy);
  EXPECT_THAT(HealthOf(run, nullptr).reasons, ElementsAre("5 of 100 tasks failed or were refused"));
  run.attempts[4].refused = 1;
  EXPECT_EQ(HealthOf(run, nullptr).grade, Grade::kAttention);
}

TEST(HealthOf_, AbandonedAttempt_NeedsALook) {
  RunOverview run = TenRounds();
  run.attempts[9].status = "abandoned";
  run.attempts[9].reason = "2 of 3 updates";
  EXPECT_EQ(HealthOf(run, nullptr).grade, Grade::kAttention);
  EXPECT_THAT(HealthOf(run, nullptr).reasons, ElementsAre("1 of 10 attempts did not commit: 2 of 3 updates"));
}

TEST(HealthOf_, MetricFarBelowItsBest_NeedsALook) {
  RunOverview run = TenRounds();
  run.curves[0].points.back().second = 0.36;  // 0.09 below its best
  EXPECT_EQ(HealthOf(run, nullptr).grade, Grade::kHealthy);
  run.curves[0].points.back().second = 0.34;
  EXPECT_THAT(HealthOf(run, nullptr).reasons, ElementsAre("test/accuracy went from 0.4500 in round 9 to 0.3400"));
  run.curves = {{.name = "train/loss", .points = {{1, 1.0}, {2, 0.5}, {3, 1.1}}, .lower_is_better = true}};
  EXPECT_THAT(HealthOf(run, nullptr).reasons, ElementsAre("train/loss went from 0.5000 in round 2 to 1.1000"));
  run.curves[0].points.back().second = std::nan("");
  EXPECT_THAT(HealthOf(run, nullptr).reasons, ElementsAre("the training loss is not a number"));
}

}  // namespace
}  // namespace rivulet
