#include "coordinator/intake/tier_sessions.h"

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;

Caller Tier(const std::string& name, uint64_t session) {
  Caller caller;
  caller.name = name;
  caller.session = session;
  return caller;
}

TEST(TierSessionsTest, LaterProcessOfAName_TakesThePlaceForGood) {
  TierSessions sessions;
  EXPECT_TRUE(sessions.empty());
  EXPECT_EQ(*sessions.Admit(Tier("west", 1)), TierSessions::Came::kNew);
  EXPECT_EQ(*sessions.Admit(Tier("west", 1)), TierSessions::Came::kAgain);
  EXPECT_EQ(*sessions.Admit(Tier("east", 1)), TierSessions::Came::kNew);
  EXPECT_EQ(*sessions.Admit(Tier("west", 2)), TierSessions::Came::kInPlace);
  EXPECT_TRUE(sessions.IsNow(Tier("west", 2)));
  EXPECT_FALSE(sessions.IsNow(Tier("west", 1)));
  EXPECT_FALSE(sessions.IsNow(Tier("south", 2)));
  EXPECT_THAT(sessions.Admit(Tier("west", 1)), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_TRUE(sessions.IsNow(Tier("west", 2)));
}

TEST(TierSessionsTest, NameThatNoRowCanHold_IsRefused) {
  TierSessions sessions;
  for (const char* const name : {"", "two\nlines"}) {
    EXPECT_THAT(sessions.Admit(Tier(name, 1)), StatusIs(absl::StatusCode::kInvalidArgument)) << name;
  }
  EXPECT_TRUE(sessions.empty());
}

// Whoever may call at all could fill the memory with names and processes of its own making.
TEST(TierSessionsTest, NamesAndProcessesAreBounded) {
  TierSessions sessions;
  for (int i = 0; i < 1024; ++i) ASSERT_OK(sessions.Admit(Tier(fmt::format("tier {}", i), 7)));
  EXPECT_THAT(sessions.Admit(Tier("one more", 7)), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(*sessions.Admit(Tier("tier 5", 7)), TierSessions::Came::kAgain);
  // 1,024 processes that were replaced are remembered; with the next all are forgotten.
  for (uint64_t session = 100; session < 100 + 1024; ++session) ASSERT_OK(sessions.Admit(Tier("tier 5", session)));
  EXPECT_THAT(sessions.Admit(Tier("tier 5", 7)), StatusIs(absl::StatusCode::kPermissionDenied));
  ASSERT_OK(sessions.Admit(Tier("tier 5", 5000)));
  EXPECT_EQ(*sessions.Admit(Tier("tier 5", 7)), TierSessions::Came::kInPlace);
  EXPECT_THAT(sessions.Admit(Tier("tier 5", 5000)), StatusIs(absl::StatusCode::kPermissionDenied));
}

}  // namespace
}  // namespace rivulet
