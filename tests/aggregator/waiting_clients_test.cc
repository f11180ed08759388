// A client of an aggregator whose parent is full waits and is told why; any other refusal ends it.
#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "aggregator/aggregator.h"
#include "tests/coordinator/test_run.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

// Turns every name away for one reason.
class FullParent : public CoordinatorApi {
 public:
  explicit FullParent(Status reason) : reason_(std::move(reason)) {}
  StatusOr<PollReply> Poll(const PollRequest& request) override {
    PollReply reply;
    for (const ServedName& name : request.serves.names) reply.refused_names.push_back({name.name, reason_});
    reply.wait_ms = 1;
    return reply;
  }
  void AwaitWork(const Caller&, uint64_t, int64_t) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller&, const BlobId&, int64_t) override {
    return NotFound("no blob");
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller&, const Submission&) override {
    return NotFound("no task");
  }
  Status Fail(const Caller&, const TaskFailure&) override { return absl::OkStatus(); }

 private:
  const Status reason_;
};

// What the client hears once the parent has answered.
StatusOr<PollReply> HeardThrough(Status reason) {
  TestFolder folder;
  FullParent parent(std::move(reason));
  Aggregator aggregator(parent,
                        {.name = "north", .version = "test", .folder = folder.File(""), .state = folder.File("s")});
  std::thread runs([&] { (void)aggregator.Run(); });
  PollRequest request;
  request.caller = {.name = "a"};
  request.capabilities.datasets = {{"train", 5}};
  StatusOr<PollReply> reply = PollReply{};
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  do {
    reply = aggregator.Poll(request);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  } while (reply.ok() && reply->awaited.sentence.find("place") == std::string::npos &&
           std::chrono::steady_clock::now() < give_up);
  aggregator.Stop();
  runs.join();
  return reply;
}

TEST(WaitingClients, NoPlaceAtTheParent_IsWaitedFor) {
  const auto reply = HeardThrough(ResourceExhausted("'a' waits for a place"));
  ASSERT_OK(reply);
  EXPECT_THAT(reply->awaited.sentence, HasSubstr("'a' waits for a place"));
  EXPECT_GE(reply->wait_ms, 1000);
}

TEST(WaitingClients, OtherRefusals_EndTheClient) {
  EXPECT_THAT(HeardThrough(InvalidArgument("no place for such data")).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no place for such data")));
}

}  // namespace
}  // namespace rivulet
