#include "federated/transport/shutdown_barrier.h"

#include <atomic>
#include <thread>

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;

// Answers every poll with what the test set.
class CountingCoordinator : public CoordinatorApi {
 public:
  StatusOr<PollReply> Poll(const PollRequest&) override { return reply; }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller&, const BlobId&, int64_t) override {
    return NotFound("no blob");
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller&, const Submission&) override {
    return NotFound("no task");
  }
  Status Fail(const Caller&, const TaskFailure& failure) override { return Aborted("{}", failure.subject); }
  StatusOr<PollReply> reply = PollReply{};
};

class AttendanceTest : public ::testing::Test {
 protected:
  void Poll(const std::string& name, uint64_t session = 1) {
    (void)attendance_.Poll({.caller = {.name = name, .session = session}});
  }
  bool AllKnow() { return attendance_.WaitUntilAllKnow(std::chrono::milliseconds(0)); }
  CountingCoordinator fake_;
  ShutdownBarrier attendance_{fake_};
};

TEST_F(AttendanceTest, NobodyPolled_AllKnow) { EXPECT_TRUE(AllKnow()); }

TEST_F(AttendanceTest, OneOfTwoTold_NotAllKnow) {
  Poll("a");
  Poll("b");
  fake_.reply->over = PollReply::Over{};
  Poll("a");
  EXPECT_FALSE(AllKnow());
  Poll("b");
  EXPECT_TRUE(AllKnow());
}

TEST(EndNoticesTest, ExpectedAndNotSeen_NotAllKnow) {
  EndNotices notices;
  notices.Expect("a");
  EXPECT_FALSE(notices.WaitUntilAllKnow(std::chrono::milliseconds(0)));
  notices.Answered({.caller = {.name = "a"}}, {.over = PollReply::Over{}});
  EXPECT_TRUE(notices.WaitUntilAllKnow(std::chrono::milliseconds(0)));
}

TEST_F(AttendanceTest, RefusedPoll_DoesNotCount) {
  fake_.reply = PermissionDenied("unknown client");
  Poll("stranger");
  EXPECT_TRUE(AllKnow());
}

TEST_F(AttendanceTest, LastOneTold_EndsTheWait) {
  Poll("a");
  fake_.reply->over = PollReply::Over{};
  std::thread late([this] { Poll("a"); });
  EXPECT_TRUE(attendance_.WaitUntilAllKnow(std::chrono::minutes(1)));
  late.join();
}

TEST_F(AttendanceTest, SecondProcessOfAName_IsWaitedForALittle) {
  Poll("a", 1);
  Poll("a", 2);
  fake_.reply->over = PollReply::Over{};
  Poll("a", 1);
  EXPECT_TRUE(AllKnow()) << "the name does";
  std::atomic<bool> told = false;
  std::thread second([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    told = true;
    Poll("a", 2);
  });
  EXPECT_TRUE(attendance_.WaitUntilAllKnow(std::chrono::minutes(1)));
  EXPECT_TRUE(told);
  second.join();
}

// Its last poll was to be followed by another within five seconds.
TEST_F(AttendanceTest, ClientThatDied_IsNotWaitedForToTheEnd) {
  Poll("a");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(attendance_.WaitUntilAllKnow(std::chrono::minutes(1)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST_F(AttendanceTest, OtherCalls_PassThrough) {
  EXPECT_THAT(attendance_.Fetch({}, {}, 0), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(attendance_.Submit({}, {.task = "t", .bytes = 1}), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(Message(attendance_.Fail({}, {.task = "t", .subject = "broken"})), "broken");
}

}  // namespace
}  // namespace rivulet
