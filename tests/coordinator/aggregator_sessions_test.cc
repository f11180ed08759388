#include "coordinator/intake/aggregator_sessions.h"

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;

Caller Aggregator(const std::string& name, uint64_t session) {
  Caller caller;
  caller.name = name;
  caller.session = session;
  return caller;
}

TEST(AggregatorSessionsTest, LaterProcessOfAName_TakesThePlaceForGood) {
  AggregatorSessions sessions;
  EXPECT_TRUE(sessions.empty());
  EXPECT_EQ(*sessions.Admit(Aggregator("west", 1)), AggregatorSessions::Came::kNew);
  EXPECT_EQ(*sessions.Admit(Aggregator("west", 1)), AggregatorSessions::Came::kAgain);
  EXPECT_EQ(*sessions.Admit(Aggregator("east", 1)), AggregatorSessions::Came::kNew);
  EXPECT_EQ(*sessions.Admit(Aggregator("west", 2)), AggregatorSessions::Came::kInPlace);
  EXPECT_TRUE(sessions.IsNow(Aggregator("west", 2)));
  EXPECT_FALSE(sessions.IsNow(Aggregator("west", 1)));
  EXPECT_FALSE(sessions.IsNow(Aggregator("south", 2)));
  EXPECT_THAT(sessions.Admit(Aggregator("west", 1)), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_TRUE(sessions.IsNow(Aggregator("west", 2)));
}

TEST(AggregatorSessionsTest, NameThatNoRowCanHold_IsRefused) {
  AggregatorSessions sessions;
  for (const char* const name : {"", "two\nlines"}) {
    EXPECT_THAT(sessions.Admit(Aggregator(name, 1)), StatusIs(absl::StatusCode::kInvalidArgument)) << name;
  }
  EXPECT_TRUE(sessions.empty());
}

// Whoever may call at all could fill the memory with names and processes of its own making.
TEST(AggregatorSessionsTest, NamesAndProcessesAreBounded) {
  AggregatorSessions sessions;
  for (int i = 0; i < 1024; ++i) ASSERT_OK(sessions.Admit(Aggregator(fmt::format("aggregator {}", i), 7)));
  EXPECT_THAT(sessions.Admit(Aggregator("one more", 7)), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(*sessions.Admit(Aggregator("aggregator 5", 7)), AggregatorSessions::Came::kAgain);
  // 1,024 processes that were replaced are remembered; with the next all are forgotten.
  for (uint64_t session = 100; session < 100 + 1024; ++session)
    ASSERT_OK(sessions.Admit(Aggregator("aggregator 5", session)));
  EXPECT_THAT(sessions.Admit(Aggregator("aggregator 5", 7)), StatusIs(absl::StatusCode::kPermissionDenied));
  ASSERT_OK(sessions.Admit(Aggregator("aggregator 5", 5000)));
  EXPECT_EQ(*sessions.Admit(Aggregator("aggregator 5", 7)), AggregatorSessions::Came::kInPlace);
  EXPECT_THAT(sessions.Admit(Aggregator("aggregator 5", 5000)), StatusIs(absl::StatusCode::kPermissionDenied));
}

}  // namespace
}  // namespace rivulet
