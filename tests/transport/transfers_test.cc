// Transfers of a server with few places: the number of open ones, and the queue of waiting ones.
#include <algorithm>
#include <atomic>
#include <thread>

#include "federated/transport/grpc_client.h"
#include "federated/transport/grpc_server.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

constexpr milliseconds kLong = std::chrono::hours(1);
constexpr auto kGiveUp = std::chrono::seconds(20);

const int64_t kShortBytes = TransferLimits().short_bytes, kLongBytes = kShortBytes + 1;

// Counts the uploads that are open at once; each holds up the server for a moment.
class TransferCountingCoordinator : public CoordinatorApi {
 public:
  StatusOr<PollReply> Poll(const PollRequest&) override { return PollReply{}; }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller&, const BlobId&, int64_t) override {
    class Reader : public ChunkReader {
     public:
      explicit Reader(TransferCountingCoordinator& counts) : counts_(counts), left_(counts.blob) { ++counts_.read; }
      ~Reader() override { --counts_.read; }
      int64_t total_bytes() const override { return std::ssize(counts_.blob); }
      StatusOr<std::span<const std::byte>> Next() override {
        return std::as_bytes(std::span(std::exchange(left_, {})));
      }

     private:
      TransferCountingCoordinator& counts_;
      std::string_view left_;
    };
    return std::make_unique<Reader>(*this);
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller&, const Submission&) override {
    class Writer : public ChunkWriter {
     public:
      explicit Writer(TransferCountingCoordinator& counts) : counts_(counts) {
        const int open = ++counts_.open;
        for (int most = counts_.most; most < open && !counts_.most.compare_exchange_weak(most, open);) {
        }
      }
      ~Writer() override { --counts_.open; }
      std::span<const uint32_t> staged_crcs() const override { return {}; }
      Status Resume(int64_t) override { return absl::OkStatus(); }
      Status Write(std::span<const std::byte>) override { return absl::OkStatus(); }
      // Waits until as many are in this call as the test asks for.
      StatusOr<SubmitResult> Finish(const Digest&) override {
        const auto end = Steady::now() + kGiveUp;
        ++counts_.finishing;
        while (counts_.finishing < counts_.together && Steady::now() < end)
          std::this_thread::sleep_for(milliseconds(1));
        if (counts_.finishing < counts_.together) return Internal("{} calls came in", counts_.finishing.load());
        return SubmitResult{};
      }

     private:
      TransferCountingCoordinator& counts_;
    };
    return std::make_unique<Writer>(*this);
  }
  Status Fail(const Caller&, const TaskFailure&) override { return absl::OkStatus(); }

  std::string blob;
  std::atomic<int> open = 0, most = 0;
  std::atomic<int> read = 0;  // readers that are open
  std::atomic<int> finishing = 0;
  int together = 0;
};

class TransfersOfAServerTest : public ::testing::Test {
 protected:
  void Start(const TransferLimits& limits, bool api_waits = false) {
    server_ = GrpcServer::Start(api_, {.listen = {.host = "127.0.0.1", .port = 0},
                                       .credentials = InsecureCredentials(false),
                                       .transfers = limits,
                                       .api_waits = api_waits})
                  .value();
  }
  std::unique_ptr<GrpcClient> NewClient() {
    return GrpcClient::Create({.coordinator = server_->address(), .credentials = InsecureCredentials(false)}).value();
  }
  bool AwaitOpen(int open) {
    const auto end = Steady::now() + kGiveUp;
    while (api_.open != open && Steady::now() < end) std::this_thread::sleep_for(milliseconds(1));
    return api_.open == open;
  }

  TransferCountingCoordinator api_;
  std::unique_ptr<GrpcServer> server_;
};

TEST_F(TransfersOfAServerTest, FortyUploadsAtOnce_AreOpenFewAtATimeAndAllEnd) {
  Start({.places = 3, .pause = kLong});
  std::atomic<int> ended = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 40; ++t) {
    threads.emplace_back([&, t] {
      const std::string bytes(600'000, 'x');
      const auto client = NewClient();
      auto writer = client->Submit({.name = fmt::format("{}", t)}, {"task", 0, std::ssize(bytes)});
      ASSERT_OK(writer);
      EXPECT_OK((*writer)->Resume(0));
      EXPECT_OK((*writer)->Write(std::as_bytes(std::span(bytes))));
      EXPECT_OK((*writer)->Finish({}));
      ++ended;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ended, 40);
  EXPECT_GT(api_.most, 0);
  EXPECT_LE(api_.most, 3);
}

// Each of them holds a thread until all have come.
TEST_F(TransfersOfAServerTest, CallsThatWaitForAnotherMachine_HoldUpNoOther) {
  Start({.places = 4, .short_places = 16}, /*api_waits=*/true);
  api_.together = 20;
  std::vector<std::thread> threads;
  for (int t = 0; t < api_.together; ++t) {
    threads.emplace_back([&, t] {
      const std::string bytes(static_cast<size_t>(t < 4 ? kLongBytes : 1), 'x');
      const auto client = NewClient();
      auto writer = client->Submit({.name = fmt::format("{}", t)}, {"task", 0, std::ssize(bytes)});
      ASSERT_OK(writer);
      EXPECT_OK((*writer)->Resume(0));
      EXPECT_OK((*writer)->Write(std::as_bytes(std::span(bytes))));
      EXPECT_OK((*writer)->Finish({}));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(api_.finishing, api_.together);
}

TEST_F(TransfersOfAServerTest, ClientsThatSayNothing_KeepNobodyOut) {
  Start({.places = 2, .pause = milliseconds(20)});
  const auto first = NewClient(), second = NewClient(), third = NewClient();
  const auto one = first->Submit({.name = "a"}, {"task", 0, kLongBytes});
  const auto other = second->Submit({.name = "b"}, {"task", 0, kLongBytes});
  ASSERT_OK(one);
  ASSERT_OK(other);
  const auto upload = third->Submit({.name = "c"}, {"task", 0, kLongBytes});
  ASSERT_OK(upload);
  EXPECT_OK((*upload)->Finish({}));
}

TEST_F(TransfersOfAServerTest, ClientThatLeavesTheQueue_IsForgottenBeforeItsTurn) {
  Start({.places = 1, .pause = kLong});
  const auto first = NewClient();
  auto held = first->Submit({.name = "a"}, {"task", 0, kLongBytes});
  ASSERT_OK(held);
  // Two of a name are as many as there may be: the third queues because these have gone.
  for (int i = 0; i < 3; ++i) {
    const auto client = NewClient();
    std::thread leaving([&] {
      std::this_thread::sleep_for(milliseconds(50));
      client->Cancel();
    });
    EXPECT_THAT(client->Submit({.name = "b"}, {"task", 0, kLongBytes}), StatusIs(absl::StatusCode::kCancelled));
    leaving.join();
  }
  EXPECT_EQ(api_.most, 1);
  held->reset();
  ASSERT_TRUE(AwaitOpen(0));
  const auto last = NewClient();
  EXPECT_OK(last->Submit({.name = "b"}, {"task", 0, kLongBytes}));
}

// What is short has places of its own, whichever way it goes; a download is known to be long when it is looked at, and
// holds nothing while it waits.
TEST_F(TransfersOfAServerTest, ShortTransfers_DoNotWaitForLongOnes) {
  Start({.places = 1, .pause = kLong});
  const auto first = NewClient(), second = NewClient();
  auto held = first->Submit({.name = "a"}, {"task", 0, kLongBytes});
  ASSERT_OK(held);
  EXPECT_OK(second->Submit({.name = "b"}, {"task", 0, kShortBytes}));
  const auto download = [&]() -> StatusOr<int64_t> {
    RIVULET_ASSIGN_OR_RETURN(const auto reader, second->Fetch({.name = "b"}, {}, 0));
    for (int64_t got = 0;;) {
      RIVULET_ASSIGN_OR_RETURN(const auto chunk, reader->Next());
      if (chunk.empty()) return got;
      got += std::ssize(chunk);
    }
  };
  api_.blob.assign(kShortBytes, 'x');
  EXPECT_EQ(download().value(), kShortBytes);
  api_.blob.assign(kLongBytes, 'x');
  std::atomic<bool> came = false;
  std::thread waits([&] {
    EXPECT_EQ(download().value(), kLongBytes);
    came = true;
  });
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_FALSE(came);
  EXPECT_EQ(api_.read, 0);
  held->reset();
  waits.join();
  EXPECT_TRUE(came);
}

TEST_F(TransfersOfAServerTest, ShortTransfersBeyondTheirPlaces_Wait) {
  Start({.places = 4, .short_places = 1, .pause = kLong});
  const auto first = NewClient(), second = NewClient();
  auto held = first->Submit({.name = "a"}, {"task", 0, kShortBytes});
  ASSERT_OK(held);
  std::thread waits([&] { EXPECT_OK(second->Submit({.name = "b"}, {"task", 0, kShortBytes})); });
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(api_.most, 1);
  held->reset();
  waits.join();
}

TEST_F(TransfersOfAServerTest, ServerThatStops_EndsThoseWhoQueue) {
  Start({.places = 1, .pause = kLong});
  const auto first = NewClient(), second = NewClient();
  const auto held = first->Submit({.name = "a"}, {"task", 0, kLongBytes});
  ASSERT_OK(held);
  std::thread queued([&] { EXPECT_FALSE(second->Submit({.name = "b"}, {"task", 0, kLongBytes}).ok()); });
  std::this_thread::sleep_for(milliseconds(50));
  server_->Stop(milliseconds(0));
  queued.join();
  EXPECT_EQ(api_.most, 1);
}

}  // namespace
}  // namespace rivulet
