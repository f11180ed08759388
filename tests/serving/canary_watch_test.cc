// A canary is reported as worse once chance does not explain the difference, and not before.
#include "serving/canary_watch.h"

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using std::chrono::microseconds;
using ::testing::HasSubstr;

std::vector<AbortRule> Rules(std::initializer_list<const char*> texts) {
  std::vector<AbortRule> rules;
  for (const char* const text : texts) rules.push_back(AbortRuleOf(text).value());
  return rules;
}

void TellAnswers(ComparedSide& side, int count, microseconds took = microseconds(100)) {
  for (int i = 0; i < count; ++i) side.Tell(absl::OkStatus(), {.queue = took / 2, .compute = took / 2});
}

void TellFailures(ComparedSide& side, int count,
                  const Status& status = InvalidArgument("the input is not the model's")) {
  for (int i = 0; i < count; ++i) side.Tell(status, {});
}

TEST(CanaryWatch, FailingAlways_IsFoundAfterTenRequests) {
  CanaryWatch watch;
  TellAnswers(watch.stable, 90);
  TellFailures(watch.canary, 10);
  EXPECT_EQ(watch.Worse(Rules({"errors=0.05"})),
            "10 of 10 requests failed, and 0 of 90 of 'stable' (--abort-if errors=0.05)");
  EXPECT_EQ(watch.Worse(Rules({"p50=2"})), "");
}

TEST(CanaryWatch, FailingAsOftenAsStable_IsNotWorse) {
  CanaryWatch watch;
  for (ComparedSide* const side : {&watch.stable, &watch.canary}) {
    TellAnswers(*side, 800);
    TellFailures(*side, 200);
  }
  EXPECT_EQ(watch.Worse(Rules({"errors=0"})), "");
}

TEST(CanaryWatch, AFewErrorsThatChanceExplains_AreNotWorse) {
  CanaryWatch watch;
  TellAnswers(watch.stable, 1000);
  TellAnswers(watch.canary, 19);
  TellFailures(watch.canary, 1);
  EXPECT_EQ(watch.Worse(Rules({"errors=0.01"})), "");
  TellAnswers(watch.canary, 1900);
  TellFailures(watch.canary, 99);  // 5 % as before, of many
  EXPECT_THAT(watch.Worse(Rules({"errors=0.01"})), HasSubstr("100 of 2019 requests failed"));
}

TEST(CanaryWatch, CallersThatHaveGone_AreNoErrors) {
  CanaryWatch watch;
  TellAnswers(watch.stable, 100);
  TellFailures(watch.canary, 100, Cancelled("the caller has gone"));
  EXPECT_EQ(watch.Worse(Rules({"errors=0"})), "");
}

TEST(CanaryWatch, Slower_IsFoundByRatioToStable) {
  CanaryWatch watch;
  TellAnswers(watch.stable, 100, microseconds(1000));
  TellAnswers(watch.canary, 100, microseconds(10'000));
  EXPECT_EQ(watch.Worse(Rules({"p50=20"})), "");
  EXPECT_THAT(watch.Worse(Rules({"p50=2"})), HasSubstr("100 of 100 requests took more than"));
}

TEST(CanaryWatch, SlowTail_IsFoundByItsPercentile) {
  CanaryWatch watch;
  TellAnswers(watch.stable, 2000, microseconds(1000));
  TellAnswers(watch.canary, 1900, microseconds(1000));
  TellAnswers(watch.canary, 100, microseconds(50'000));  // one of twenty
  EXPECT_EQ(watch.Worse(Rules({"p50=2"})), "");
  EXPECT_THAT(watch.Worse(Rules({"p50=2", "p99=2"})), HasSubstr("the 99th percentile of 'stable' (--abort-if p99=2)"));
}

TEST(CanaryWatch, TooFewStableRequests_CompareNoTail) {
  CanaryWatch watch;
  TellAnswers(watch.stable, 900, microseconds(1000));
  TellAnswers(watch.canary, 1000, microseconds(50'000));
  EXPECT_EQ(watch.Worse(Rules({"p99=2"})), "");
}

// Without a window thirty errors would hide behind the ten thousand answers before them.
TEST(CanaryWatch, TurningBadLate_IsFoundInTheNextWindow) {
  CanaryWatch watch;
  TellAnswers(watch.stable, 1000);
  TellAnswers(watch.canary, static_cast<int>(CanaryWatch::kWindow));
  EXPECT_EQ(watch.Worse(Rules({"errors=0.01"})), "");
  TellFailures(watch.canary, 30);
  EXPECT_THAT(watch.Worse(Rules({"errors=0.01"})), HasSubstr("30 of 30"));
}

TEST(AbortRule, WhatIsNone_IsRefusedWithAnExample) {
  EXPECT_DOUBLE_EQ(AbortRuleOf("p99.9=1.5")->quantile, 0.999);
  EXPECT_EQ(AbortRuleOf("errors=0")->quantile, 0);
  for (const char* const wrong : {"", "errors", "errors=", "errors=1", "errors=-0.1", "errors=nan", "p0=2", "p100=2",
                                  "p99=0.5", "p99=inf", "p=2", "q99=2", "p99=2x", "99=2"})
    EXPECT_THAT(AbortRuleOf(wrong).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("errors=0.01")))
        << wrong;
}

}  // namespace
}  // namespace rivulet
