// Streams of slow peers, and clients that open too many.
#include "rpc/stream_guard.h"

#include <atomic>
#include <thread>

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;
using Steady = std::chrono::steady_clock;

TEST(StreamGuardTest, UnnamedStreamsOfAConnection_AreFewUntilTheySayWhoseTheyAre) {
  StreamGuard guard({.unnamed_per_connection = 2});
  const auto first = guard.Enter("one", [] {}), second = guard.Enter("one", [] {});
  ASSERT_OK(first);
  ASSERT_OK(second);
  EXPECT_THAT(guard.Enter("one", [] {}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("2 streams of this connection")));
  const auto other = guard.Enter("other", [] {});
  EXPECT_OK(other);
  EXPECT_OK(guard.Name(*first, "a", "uploads"));
  const auto third = guard.Enter("one", [] {});
  EXPECT_OK(third);
  for (const auto& stream : {first, second, third, other}) guard.Leave(*stream);
}

TEST(StreamGuardTest, StreamsOfAName_AreTwoOfAKindOverAllConnections) {
  StreamGuard guard({});
  std::vector<uint64_t> streams;
  const auto enter = [&](const std::string& name, const std::string& what) {
    streams.push_back(*guard.Enter(fmt::format("connection {}", streams.size()), [] {}));
    return guard.Name(streams.back(), name, what);
  };
  EXPECT_OK(enter("a", "uploads"));
  EXPECT_OK(enter("a", "uploads"));
  EXPECT_OK(enter("a", "downloads"));
  EXPECT_OK(enter("b", "uploads"));
  EXPECT_THAT(enter("a", "uploads"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("client 'a' has 2 uploads under way")));
  guard.Leave(streams[0]);
  EXPECT_OK(enter("a", "uploads"));
  for (size_t i = 1; i < streams.size(); ++i) guard.Leave(streams[i]);
}

// A peer hears of the end before the stream has left.
TEST(StreamGuardTest, StreamThatHasEnded_LeavesItsNameToTheNextAndIsCountedOnce) {
  StreamGuard guard({.per_name = 1});
  const uint64_t first = *guard.Enter("one", [] {}), second = *guard.Enter("one", [] {}),
                 third = *guard.Enter("one", [] {});
  ASSERT_OK(guard.Name(first, "a", "uploads"));
  guard.End(first);
  EXPECT_OK(guard.Name(second, "a", "uploads"));
  guard.Leave(first);
  EXPECT_THAT(guard.Name(third, "a", "uploads"), StatusIs(absl::StatusCode::kUnavailable));
  guard.Leave(second);
  guard.Leave(third);
}

TEST(StreamGuardTest, PeerThatTakesTooLong_IsCancelledOnceAndOnlyWhileItIsAwaited) {
  using std::chrono::milliseconds;
  StreamGuard guard({.header_timeout = milliseconds(20), .stall_timeout = milliseconds(20)});
  std::atomic<int> silent = 0, stalled = 0, working = 0;
  const uint64_t a = *guard.Enter("x", [&] { ++silent; });
  const uint64_t b = *guard.Enter("x", [&] { ++stalled; });
  const uint64_t c = *guard.Enter("x", [&] { ++working; });
  ASSERT_OK(guard.Name(b, "b", "uploads"));
  ASSERT_OK(guard.Name(c, "c", "uploads"));
  guard.Waiting(b);
  guard.Waiting(c);
  guard.Moved(c);
  const auto give_up = Steady::now() + std::chrono::seconds(20);
  while ((silent == 0 || stalled == 0) && Steady::now() < give_up) std::this_thread::sleep_for(milliseconds(1));
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(silent, 1);
  EXPECT_EQ(stalled, 1);
  EXPECT_EQ(working, 0);
  for (const uint64_t stream : {a, b, c}) guard.Leave(stream);
}

}  // namespace
}  // namespace rivulet
