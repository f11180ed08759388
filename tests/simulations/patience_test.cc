// A worker whose simulation answers, ends, or is absent.
#include "simulations/launchers/patience.h"

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

// Answers every poll with what the test set.
class OneReply : public CoordinatorApi {
 public:
  StatusOr<PollReply> Poll(const PollRequest&) override { return reply; }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller&, const BlobId&, int64_t) override {
    return Unavailable("nobody is there");
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller&, const Submission&) override {
    return NotFound("no task");
  }
  Status Fail(const Caller&, const TaskFailure&) override { return absl::OkStatus(); }
  StatusOr<PollReply> reply = PollReply{};
};

class PatienceTest : public ::testing::Test {
 protected:
  void Poll() { (void)api_.Poll({}); }
  OneReply simulation_;
  Patience patience_{std::chrono::seconds(600)};
  HeardApi api_{simulation_, patience_};
};

TEST_F(PatienceTest, FirstMissSinceAnAnswer_IsToldOnce) {
  EXPECT_TRUE(patience_.FirstMiss());
  EXPECT_FALSE(patience_.FirstMiss());
  (void)api_.Fetch({}, {}, 0);
  EXPECT_FALSE(patience_.FirstMiss()) << "nobody answered";
  (void)api_.Submit({}, {});
  EXPECT_TRUE(patience_.FirstMiss()) << "a refusal is an answer";
}

// One thread of a worker hears the end; the process that said so may be gone when the next one asks.
TEST_F(PatienceTest, EndHeardByOneThread_IsKnownToAllAlthoughNobodyAnswersAnyMore) {
  Poll();
  EXPECT_FALSE(patience_.run_is_over());
  simulation_.reply->over = PollReply::Over{};
  Poll();
  simulation_.reply = Unavailable("nobody is there");
  Poll();
  EXPECT_TRUE(patience_.run_is_over());
  EXPECT_FALSE(patience_.exhausted());
}

TEST(Patience, OfNoSeconds_IsNeverExhausted) { EXPECT_FALSE(Patience(std::chrono::seconds(0)).exhausted()); }

}  // namespace
}  // namespace rivulet
