#include "coordinator/rounds/policy.h"

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

TEST(PresenceTest, SiteThatHasNotPolledForAMinute_IsForgotten) {
  Presence presence;
  presence.SawSite("a", 1'000);
  presence.SawSite("b", 1'000);
  presence.SawSite("a", 31'000);
  presence.SawSite("a", 61'000);
  EXPECT_EQ(presence.sites(), 2);
  presence.SawSite("a", 61'001);
  EXPECT_EQ(presence.sites(), 1);
}

TEST(PresenceTest, NameThatIsSilentForAsLong_IsAbsentUntilItIsSeenAgain) {
  Presence presence(1000);
  presence.Begin(0);
  presence.Saw("a", 100);
  presence.Saw("b", 200);
  EXPECT_TRUE(presence.IsPresent("nobody", 999)) << "it has not had the time to come";
  EXPECT_EQ(presence.CountPresent(7, 999), 7);
  EXPECT_TRUE(presence.IsPresent("a", 1099));
  EXPECT_FALSE(presence.IsPresent("a", 1100));
  EXPECT_FALSE(presence.IsPresent("nobody", 1100));
  EXPECT_EQ(presence.CountPresent(7, 1100), 1);
  EXPECT_TRUE(presence.IsPresent("b", 1100));
  presence.Saw("a", 1150);
  EXPECT_EQ(presence.CountPresent(7, 1150), 2);
  EXPECT_EQ(presence.CountPresent(1, 1150), 1) << "of so many";
  presence.Forget("b");
  EXPECT_FALSE(presence.IsPresent("b", 1150));
  EXPECT_EQ(presence.CountPresent(7, 1150), 1);
}

TEST(PresenceTest, OfAMillisecond_IsKept_AndOfNoneNobodyIs) {
  Presence shortest(1);
  shortest.Begin(0);
  shortest.Saw("a", 5);
  EXPECT_TRUE(shortest.IsPresent("a", 5));
  EXPECT_FALSE(shortest.IsPresent("a", 6));
  Presence none(0);
  none.Begin(0);
  none.Saw("a", 5);
  EXPECT_TRUE(none.IsPresent("b", 1'000'000));
  EXPECT_TRUE(none.seen().empty()) << "a million names would be kept for nothing";
}

TEST(PresenceTest, WhoDidNotAnswer_IsAbsentUntilItIsSeen) {
  Presence presence(1000);
  presence.Begin(0);
  presence.Saw("a", 100);
  presence.Lost("a");
  presence.Lost("b");
  EXPECT_FALSE(presence.IsPresent("a", 200));
  EXPECT_EQ(presence.CountPresent(7, 200), 5);
  presence.Saw("a", 300);
  EXPECT_TRUE(presence.IsPresent("a", 300));
  EXPECT_FALSE(presence.IsPresent("b", 300));
}

TEST(PresenceTest, WhoIsServedByASite_IsPresentWhileTheSiteIs) {
  Presence presence(1000);
  presence.Begin(0);
  presence.SawSite("worker 0", 5000);
  EXPECT_TRUE(presence.IsPresent("a", 5999));
  EXPECT_EQ(presence.CountPresent(3, 5999), 3);
  EXPECT_FALSE(presence.IsPresent("a", 6000));
}

TEST(PresenceTest, WithoutATime_NobodyIsEverAbsent) {
  Presence presence;
  presence.Begin(0);
  EXPECT_TRUE(presence.IsPresent("a", 1'000'000));
  EXPECT_EQ(presence.CountPresent(3, 1'000'000), 3);
}

TEST(RetryTest, Pauses_DoubleUpToTheLongest) {
  Retry retry{1000, 300'000};
  EXPECT_EQ(retry.PauseAfter(1), 1000);
  EXPECT_EQ(retry.PauseAfter(2), 2000);
  EXPECT_EQ(retry.PauseAfter(9), 256'000);
  EXPECT_EQ(retry.PauseAfter(10), 300'000);
  EXPECT_EQ(retry.PauseAfter(1'000'000), 300'000);
  EXPECT_EQ(Retry{}.PauseAfter(5), 0);
}

TEST(SittingOutTest, Forgiven_WhenTooFewWouldBeLeft_LongestFirst) {
  ExcludedClients out;
  for (const char* name : {"b", "a", "b", "c"}) out.Add(name);
  EXPECT_THAT(out.in_order(), ::testing::ElementsAre("b", "a", "c"));
  out.ForgiveUntil(10, 7);
  EXPECT_THAT(out.names(), ::testing::ElementsAre("a", "b", "c")) << "seven are left";
  out.ForgiveUntil(10, 8);
  EXPECT_THAT(out.in_order(), ::testing::ElementsAre("a", "c"));
  EXPECT_THAT(out.names(), ::testing::ElementsAre("a", "c"));
  out.ForgiveUntil(1, 5);
  EXPECT_THAT(out.names(), ::testing::IsEmpty());
}

TEST(PaceTest, WaitingOnes_CallAtMostAThousandTimesASecondTogether) {
  EXPECT_EQ(PollIntervals::WaitFor(1), 20);
  EXPECT_EQ(PollIntervals::WaitFor(3000), 3000);
  EXPECT_EQ(PollIntervals::WaitFor(1'000'000), 10'000);
}

TEST(PaceTest, Heartbeats_AreThreeALeaseAndAThousandASecondOfAll) {
  EXPECT_EQ(PollIntervals::Heartbeat(5, 60'000), 1000);
  EXPECT_EQ(PollIntervals::Heartbeat(3000, 60'000), 3000);
  EXPECT_EQ(PollIntervals::Heartbeat(1'000'000, 60'000), 10'000);
  EXPECT_EQ(PollIntervals::Heartbeat(1'000'000, 900), 300);
  EXPECT_EQ(PollIntervals::Heartbeat(5, 0), 1000) << "no lease lapses";
}

TEST(PaceTest, FairShare_IsHalfAnEvenOneAndAtLeastOne) {
  EXPECT_EQ(PollIntervals::FairShare(8, 10, 2), 2);
  EXPECT_EQ(PollIntervals::FairShare(8, 1000, 2), 8) << "no more than it wants";
  EXPECT_EQ(PollIntervals::FairShare(8, 3, 2), 1);
  EXPECT_EQ(PollIntervals::FairShare(0, 10, 2), 0);
}

// Whoever asks in turn, a cohort is spread evenly.
TEST(PaceTest, FairShare_SitesThatAskInTurn_TakeAboutTheSame) {
  for (const int64_t sites : {1, 2, 3, 16}) {
    for (const int64_t cohort : {1, 10, 100, 1000}) {
      std::vector<int64_t> taken(static_cast<size_t>(sites));
      int64_t left = cohort;
      for (size_t turn = 0; left > 0; ++turn) {
        const int64_t share = std::min(left, PollIntervals::FairShare(16, left, sites));
        taken[turn % taken.size()] += share;
        left -= share;
      }
      const auto [least, most] = std::minmax_element(taken.begin(), taken.end());
      EXPECT_LE(*most - *least, 17) << sites << " sites, " << cohort << " tasks";
    }
  }
}

}  // namespace
}  // namespace rivulet
