// Downloads from a coordinator that announces too much, sends more than announced, or changes its announcement. Each
// ends within the bound that was known before it started.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "client/calls/coordinator_calls.h"
#include "federated/transport/grpc_client.h"
#include "federated/transport/grpc_server.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Lt;

constexpr int64_t kMiB = 1 << 20, kEndless = int64_t{1} << 62;

// Announces what a test says, a size for each fetch, and sends zeros without end.
class FalseCoordinator : public CoordinatorApi {
 public:
  StatusOr<PollReply> Poll(const PollRequest&) override { return PollReply{}; }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller&, const BlobId&, int64_t) override {
    class Endless : public ChunkReader {
     public:
      Endless(FalseCoordinator& from, int64_t total) : from_(from), total_(total) {}
      int64_t total_bytes() const override { return total_; }
      StatusOr<std::span<const std::byte>> Next() override {
        from_.sent += std::ssize(from_.zeros_);
        return std::span<const std::byte>(from_.zeros_);
      }

     private:
      FalseCoordinator& from_;
      const int64_t total_;
    };
    const int64_t total = announced[static_cast<size_t>(std::min<int64_t>(fetches++, std::ssize(announced) - 1))];
    return std::make_unique<Endless>(*this, total);
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller&, const Submission&) override {
    return NotFound("no task");
  }
  Status Fail(const Caller&, const TaskFailure&) override { return absl::OkStatus(); }

  std::vector<int64_t> announced = {kEndless};
  std::atomic<int64_t> fetches = 0, sent = 0;

 private:
  const std::vector<std::byte> zeros_ = std::vector<std::byte>(256 << 10);
};

class BoundedDownloadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ =
        GrpcServer::Start(false_, {.listen = {.host = "127.0.0.1"}, .credentials = InsecureCredentials(false)}).value();
    client_ =
        GrpcClient::Create({.coordinator = server_->address(), .credentials = InsecureCredentials(false)}).value();
  }
  void TearDown() override { server_->Stop(std::chrono::seconds(1)); }
  CoordinatorCalls Calls(CallOptions options = {}) { return CoordinatorCalls(*client_, stop_, std::move(options)); }

  FalseCoordinator false_;
  StopSignal stop_;
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<GrpcClient> client_;
};

const BlobId kBlobs[] = {{BlobId::Form::kBytes, {}}, {BlobId::Form::kModel, {}}, {BlobId::Form::kState, {}}};

TEST_F(BoundedDownloadTest, AnnouncedBeyondTheBound_EndsAtTheFirstChunk) {
  for (const BlobId& blob : kBlobs) {
    if (blob.form == BlobId::Form::kState) continue;  // of sites alone: below
    EXPECT_THAT(Calls().Fetch({.name = "a"}, blob, 1000),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 1000 are taken")));
  }
  EXPECT_LE(false_.fetches, 4) << "a server opens a long blob twice; the same would be announced again";
  EXPECT_LT(false_.sent, 16 * kMiB) << "as far ahead as a stream may be sent";
}

TEST_F(BoundedDownloadTest, AnnouncedState_IsBoundedToo) {
  CoordinatorCalls calls(false_, stop_);
  for (const BlobId& blob : kBlobs) {
    EXPECT_THAT(calls.Fetch({.name = "a"}, blob, 1000), StatusIs(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_EQ(false_.sent, 0) << "what is announced decides, before a chunk is asked for";
}

TEST_F(BoundedDownloadTest, PlanWithoutABudget_HasAtMost64Megabytes) {
  false_.announced = {64'000'001};
  EXPECT_THAT(Calls().FetchPlan({.name = "a"}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("announced 64000001 bytes"), HasSubstr("at most 64000000"))));
  EXPECT_LT(false_.sent, 16 * kMiB);
}

TEST_F(BoundedDownloadTest, SitesBudget_BoundsEveryDownload) {
  false_.announced = {5'000'001};
  const CallOptions budget{.max_plan_bytes = 5'000'000, .max_download_bytes = 5'000'000};
  EXPECT_THAT(Calls(budget).FetchPlan({.name = "a"}, {}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Calls(budget).Fetch({.name = "a"}, kBlobs[1], kAnyBytes),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("this site's memory allows 5000000")));
}

TEST_F(BoundedDownloadTest, MoreThanWasAnnounced_EndsAfterAFewTriesWithNothingKept) {
  false_.announced = {kMiB};
  EXPECT_THAT(Calls({.backoff = {.initial_ms = 1, .max_ms = 2}}).Fetch({.name = "a"}, kBlobs[1], kMiB),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(false_.fetches, Lt(8));
  EXPECT_LT(false_.sent, 64 * kMiB);
}

// Over a network the connection notices; a coordinator in this process may do it too.
TEST_F(BoundedDownloadTest, MoreThanWasAnnounced_IsNotKeptWithoutANetworkEither) {
  false_.announced = {1000};
  EXPECT_THAT(CoordinatorCalls(false_, stop_).Fetch({.name = "a"}, kBlobs[1], kMiB),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("more than the announced 1000 bytes")));
}

TEST_F(BoundedDownloadTest, AnotherSizeAtTheNextTry_IsComparedAgain) {
  false_.announced = {1000, kEndless};
  EXPECT_THAT(CoordinatorCalls(false_, stop_).Fetch({.name = "a"}, kBlobs[1], kMiB),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(false_.fetches, 2);
}

}  // namespace
}  // namespace rivulet
