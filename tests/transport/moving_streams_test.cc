// Limits on the data of an upload or download at a server whose disk or peer stalls, and the end of such streams.
#include <algorithm>
#include <atomic>
#include <semaphore>
#include <thread>

#include "federated/transport/grpc_client.h"
#include "federated/transport/grpc_server.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kBytes = 32 * kMiB;

std::byte ByteAt(int64_t i) { return static_cast<std::byte>((i * 2654435761) >> 13); }

// Gives a blob of kBytes, and takes uploads in as far as it is let.
class PatternCoordinator : public CoordinatorApi {
 public:
  PatternCoordinator() : blob(kBytes) {
    for (int64_t i = 0; i < kBytes; ++i) blob[static_cast<size_t>(i)] = ByteAt(i);
  }
  StatusOr<PollReply> Poll(const PollRequest&) override { return PollReply{}; }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller&, const BlobId&, int64_t) override {
    class Reader : public ChunkReader {
     public:
      explicit Reader(PatternCoordinator& from) : from_(from) { ++from_.open; }
      ~Reader() override { --from_.open; }
      int64_t total_bytes() const override { return kBytes; }
      std::shared_ptr<const void> holder() const override { return from_.holder; }
      StatusOr<std::span<const std::byte>> Next() override {
        const auto piece = std::span(from_.blob).subspan(static_cast<size_t>(at_));
        const auto part = piece.first(std::min<size_t>(piece.size(), 256 << 10));
        at_ += std::ssize(part);
        from_.given = at_;
        if (from_.fails_at > 0 && at_ > from_.fails_at) return DataLoss("the model's file shrank");
        return part;
      }

     private:
      PatternCoordinator& from_;
      int64_t at_ = 0;
    };
    return std::make_unique<Reader>(*this);
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller&, const Submission&) override {
    class Writer : public ChunkWriter {
     public:
      explicit Writer(PatternCoordinator& to) : to_(to) { ++to_.open; }
      ~Writer() override { --to_.open; }
      std::span<const uint32_t> staged_crcs() const override { return {}; }
      Status Resume(int64_t) override { return absl::OkStatus(); }
      Status Write(std::span<const std::byte> chunk) override {
        if (!std::exchange(began_, true) && to_.holds) {
          to_.stands.release();
          to_.go_on.acquire();
        }
        const auto expected = std::span(to_.blob).subspan(static_cast<size_t>(to_.taken), chunk.size());
        if (!std::ranges::equal(chunk, expected)) return DataLoss("other bytes than were sent");
        to_.taken += std::ssize(chunk);
        if (to_.full_at > 0 && to_.taken > to_.full_at) return ResourceExhausted("the disk is full");
        return absl::OkStatus();
      }
      StatusOr<SubmitResult> Finish(const Digest&) override { return SubmitResult{}; }

     private:
      PatternCoordinator& to_;
      bool began_ = false;
    };
    return std::make_unique<Writer>(*this);
  }
  Status Fail(const Caller&, const TaskFailure&) override { return absl::OkStatus(); }

  std::vector<std::byte> blob;
  std::atomic<int64_t> given = 0, taken = 0;
  std::atomic<int> open = 0;  // readers and writers
  int64_t fails_at = 0, full_at = 0;
  std::shared_ptr<const void> holder;  // of the blob, for who downloads it
  bool holds = false;                  // uploads stand still at their first byte
  std::binary_semaphore stands{0}, go_on{0};
};

class MovingStreamsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ =
        GrpcServer::Start(api_, {.listen = {.host = "127.0.0.1"}, .credentials = InsecureCredentials(false)}).value();
    client_ = NewClient();
  }
  std::unique_ptr<GrpcClient> NewClient() {
    return GrpcClient::Create({.coordinator = server_->address(), .credentials = InsecureCredentials(false)}).value();
  }
  // In parts of 256 KiB; `sent` is what the client is rid of.
  StatusOr<SubmitResult> Upload(std::atomic<int64_t>* sent = nullptr) {
    RIVULET_ASSIGN_OR_RETURN(const auto writer, client_->Submit({.name = "a"}, {.task = "t", .bytes = kBytes}));
    if (update_holder_ != nullptr) writer->LiesIn(update_holder_);
    RIVULET_RETURN_IF_ERROR(writer->Resume(0));
    for (auto left = std::span<const std::byte>(api_.blob); !left.empty();) {
      const auto part = left.first(std::min<size_t>(left.size(), 256 << 10));
      RIVULET_RETURN_IF_ERROR(writer->Write(part));
      left = left.subspan(part.size());
      if (sent != nullptr) *sent += std::ssize(part);
    }
    return writer->Finish({});
  }
  // What `value` is when it has not changed for a while.
  static int64_t AtRest(const std::atomic<int64_t>& value) {
    int64_t last = -1;
    for (auto since = Steady::now(); Steady::now() - since < milliseconds(300);) {
      if (value != last) since = Steady::now();
      last = value;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return last;
  }
  bool AwaitNoneOpen() {
    const auto end = Steady::now() + std::chrono::seconds(20);
    while (api_.open > 0 && Steady::now() < end) std::this_thread::sleep_for(milliseconds(1));
    return api_.open == 0;
  }

  // Whether nobody but the test has it, soon.
  static bool AwaitLetGo(const std::shared_ptr<const void>& holder) {
    const auto end = Steady::now() + std::chrono::seconds(20);
    while (holder.use_count() > 1 && Steady::now() < end) std::this_thread::sleep_for(milliseconds(1));
    return holder.use_count() == 1;
  }
  StatusOr<int64_t> Download(const std::string& name) {
    RIVULET_ASSIGN_OR_RETURN(const auto reader, client_->Fetch({.name = name}, {}, 0));
    for (int64_t got = 0;;) {
      RIVULET_ASSIGN_OR_RETURN(const auto chunk, reader->Next());
      if (chunk.empty()) return got;
      const auto expected = std::span(api_.blob).subspan(static_cast<size_t>(got), chunk.size());
      if (!std::ranges::equal(chunk, expected)) return DataLoss("other bytes than were sent");
      got += std::ssize(chunk);
    }
  }

  PatternCoordinator api_;
  std::shared_ptr<const void> update_holder_;  // null: what is uploaded is copied
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<GrpcClient> client_;
};

// One message is staged, one lies read, and the window and what the client has in hand are before them.
TEST_F(MovingStreamsTest, UploadWhoseStagingStandsStill_HoldsItsSenderBack) {
  api_.holds = true;
  std::atomic<int64_t> sent = 0;
  StatusOr<SubmitResult> result = Internal("it has not ended");
  std::thread sender([&] {
    result = Upload(&sent);
    api_.stands.release();  // where it never came so far
  });
  api_.stands.acquire();  // however long it takes until a first message is there
  EXPECT_LE(AtRest(sent), 4 * kMiB);
  EXPECT_EQ(api_.taken, 0);
  api_.go_on.release();
  sender.join();
  EXPECT_OK(result);
  EXPECT_EQ(api_.taken, kBytes);
}

TEST_F(MovingStreamsTest, UploadThatTheDiskCannotHold_EndsWithTheReasonWhileMoreComes) {
  api_.full_at = 5 * kMiB;
  EXPECT_THAT(Upload(), StatusIs(absl::StatusCode::kResourceExhausted, "the disk is full"));
  EXPECT_TRUE(AwaitNoneOpen());
  api_.full_at = api_.taken = 0;
  EXPECT_OK(Upload());
}

TEST_F(MovingStreamsTest, DownloadThatNobodyReads_IsMadeOnlyALittleAhead) {
  {
    const auto reader = client_->Fetch({.name = "a"}, {}, 0);
    ASSERT_OK(reader);
    EXPECT_LE(AtRest(api_.given), 8 * kMiB);
    int64_t got = 0;
    for (auto chunk = (*reader)->Next(); chunk.ok() && !chunk->empty(); chunk = (*reader)->Next()) {
      ASSERT_TRUE(std::ranges::equal(*chunk, std::span(api_.blob).subspan(static_cast<size_t>(got), chunk->size())));
      got += std::ssize(*chunk);
    }
    EXPECT_EQ(got, kBytes);
  }
  EXPECT_TRUE(AwaitNoneOpen());
}

TEST_F(MovingStreamsTest, DownloadThatFailsMidway_GivesWhatCameBeforeAndTheReason) {
  api_.fails_at = 6 * kMiB;
  const auto reader = client_->Fetch({.name = "a"}, {}, 0);
  ASSERT_OK(reader);
  int64_t got = 0;
  auto chunk = (*reader)->Next();
  for (; chunk.ok() && !chunk->empty(); chunk = (*reader)->Next()) got += std::ssize(*chunk);
  EXPECT_THAT(chunk.status(), StatusIs(absl::StatusCode::kDataLoss, "the model's file shrank"));
  EXPECT_EQ(got, 6 * kMiB);
}

TEST_F(MovingStreamsTest, HeldBytes_AreSentFromWhereTheyLieAndLetGoWhenTheyHaveGone) {
  const std::shared_ptr<const void> blob = std::make_shared<int>(), update = std::make_shared<int>();
  api_.holder = blob;
  update_holder_ = update;
  EXPECT_EQ(*Download("a"), kBytes);
  EXPECT_OK(Upload());
  EXPECT_EQ(api_.taken, kBytes);
  api_.holder = update_holder_ = nullptr;
  EXPECT_TRUE(AwaitLetGo(blob));
  EXPECT_TRUE(AwaitLetGo(update));
}

TEST_F(MovingStreamsTest, HeldBytesOfATransferThatIsCut_AreLetGo) {
  const std::shared_ptr<const void> blob = std::make_shared<int>(), update = std::make_shared<int>();
  api_.holder = blob;
  update_holder_ = update;
  api_.full_at = 5 * kMiB;
  EXPECT_THAT(Upload(), StatusIs(absl::StatusCode::kResourceExhausted, "the disk is full"));
  for (int cut = 0; cut < 20; ++cut) {
    const auto reader = client_->Fetch({.name = fmt::format("client-{}", cut)}, {}, 0);
    ASSERT_OK(reader);
    for (int i = 0; i < 3 * cut; ++i) ASSERT_OK((*reader)->Next());
  }
  EXPECT_TRUE(AwaitNoneOpen());
  api_.holder = update_holder_ = nullptr;
  client_.reset();
  EXPECT_TRUE(AwaitLetGo(blob));
  EXPECT_TRUE(AwaitLetGo(update));
}

// Also in the moments in which a message is made while another is on its way.
TEST_F(MovingStreamsTest, DownloadsCutAtAnyMoment_LeaveNothingBehind) {
  for (int cut = 0; cut < 60; ++cut) {
    const auto reader = client_->Fetch({.name = fmt::format("client-{}", cut)}, {}, 0);
    ASSERT_OK(reader);
    for (int i = 0; i < cut; ++i) ASSERT_OK((*reader)->Next());
    std::this_thread::sleep_for(std::chrono::microseconds(37 * cut));
  }
  EXPECT_TRUE(AwaitNoneOpen());
  EXPECT_OK(Upload());
}

}  // namespace
}  // namespace rivulet
