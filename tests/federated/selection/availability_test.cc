// Traces of availability: the rounds in a line, and invalid lines.
#include "federated/selection/availability.h"

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

TEST(AvailabilityTrace, Lines_AreRoundsBothIncluded) {
  ASSERT_OK_AND_ASSIGN(const AvailabilityTrace trace,
                       AvailabilityTrace::Parse("client,from,until\na,2,3\r\na,6,6\n\nb,1,1", "t.csv", 0));
  for (const int64_t round : {2, 3, 6}) EXPECT_TRUE(trace.MayBeDrawn("a", round)) << round;
  for (const int64_t round : {1, 4, 5, 7}) EXPECT_FALSE(trace.MayBeDrawn("a", round)) << round;
  EXPECT_TRUE(trace.MayBeDrawn("b", 1));
  EXPECT_FALSE(trace.MayBeDrawn("b", 2));
  EXPECT_TRUE(trace.MayBeDrawn("who has no line", 5));
}

TEST(AvailabilityTrace, Period_BeginsAnew) {
  ASSERT_OK_AND_ASSIGN(const AvailabilityTrace trace, AvailabilityTrace::Parse("a,2,3\n", "t.csv", 4));
  for (const int64_t round : {2, 3, 6, 7, 4002}) EXPECT_TRUE(trace.MayBeDrawn("a", round)) << round;
  for (const int64_t round : {1, 4, 5, 8, 4001}) EXPECT_FALSE(trace.MayBeDrawn("a", round)) << round;
}

TEST(AvailabilityTrace, WhatIsNoLine_IsToldWhere) {
  for (const char* const line :
       {"a", "a,1", "a,1,2,3", "a,0,2", "a,3,2", "a,x,2", ",1,2", "a,1,99999999999999999999"}) {
    EXPECT_THAT(AvailabilityTrace::Parse(std::string("a,1,1\n") + line, "t.csv", 0),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(fmt::format("t.csv:2: '{}' is no line", line))));
  }
}

}  // namespace
}  // namespace rivulet
