// A client's waits for a stream: without limit for its turn, without limit while data moves, and no longer than its
// patience if nothing moves.
#include <chrono>
#include <semaphore>
#include <thread>

#include "federated/transport/grpc_client.h"
#include "federated/transport/grpc_server.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using std::chrono::milliseconds;

const std::string& BlobOfTenChunks() {
  static const auto* const blob = new std::string(10'000, 'x');
  return *blob;
}

// Gives a thousand bytes at a time, each after a pause; at `holds_at` none until it is let go.
class UnhurriedCoordinator : public CoordinatorApi {
 public:
  StatusOr<PollReply> Poll(const PollRequest&) override { return PollReply{}; }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller&, const BlobId&, int64_t) override {
    class Reader : public ChunkReader {
     public:
      explicit Reader(UnhurriedCoordinator& from) : from_(from) {}
      int64_t total_bytes() const override { return std::ssize(BlobOfTenChunks()); }
      StatusOr<std::span<const std::byte>> Next() override {
        std::this_thread::sleep_for(offset_ == 0 ? from_.turn : from_.pause);
        if (offset_ == from_.holds_at) from_.go_on.acquire();
        const auto rest = std::as_bytes(std::span(BlobOfTenChunks())).subspan(offset_);
        const auto chunk = rest.first(std::min<size_t>(1000, rest.size()));
        offset_ += chunk.size();
        return chunk;
      }

     private:
      UnhurriedCoordinator& from_;
      size_t offset_ = 0;
    };
    return std::make_unique<Reader>(*this);
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller&, const Submission&) override {
    return Unimplemented("nothing is submitted here");
  }
  Status Fail(const Caller&, const TaskFailure&) override { return absl::OkStatus(); }

  milliseconds turn{0}, pause{0};
  size_t holds_at = std::string::npos;
  std::binary_semaphore go_on{0};
};

class StreamPatienceTest : public ::testing::Test {
 protected:
  StatusOr<size_t> Fetch(milliseconds patience) {
    RIVULET_ASSIGN_OR_RETURN(const auto server, GrpcServer::Start(api_, {.listen = {.host = "127.0.0.1"},
                                                                         .credentials = InsecureCredentials(false)}));
    RIVULET_ASSIGN_OR_RETURN(const auto client, GrpcClient::Create({.coordinator = server->address(),
                                                                    .credentials = InsecureCredentials(false),
                                                                    .stream_patience = patience}));
    const auto fetched = [&]() -> StatusOr<size_t> {
      RIVULET_ASSIGN_OR_RETURN(const auto reader, client->Fetch({.name = "ann"}, {}, 0));
      for (size_t bytes = 0;;) {
        RIVULET_ASSIGN_OR_RETURN(const auto chunk, reader->Next());
        if (chunk.empty()) return bytes;
        bytes += chunk.size();
      }
    }();
    api_.go_on.release();
    return fetched;
  }

  UnhurriedCoordinator api_;
};

TEST_F(StreamPatienceTest, TurnThatIsLongInComing_IsWaitedFor) {
  api_.turn = milliseconds(600);
  ASSERT_OK_AND_ASSIGN(const size_t bytes, Fetch(milliseconds(200)));
  EXPECT_EQ(bytes, BlobOfTenChunks().size());
}

TEST_F(StreamPatienceTest, WhatMovesSlowly_IsWaitedFor) {
  api_.pause = milliseconds(80);
  ASSERT_OK_AND_ASSIGN(const size_t bytes, Fetch(milliseconds(500)));
  EXPECT_EQ(bytes, BlobOfTenChunks().size());
}

TEST_F(StreamPatienceTest, WhatStandsStill_IsGivenUp) {
  api_.holds_at = 3000;
  EXPECT_THAT(Fetch(milliseconds(200)),
              StatusIs(absl::StatusCode::kUnavailable, ::testing::HasSubstr("nothing has moved for 0.2 s")));
}

}  // namespace
}  // namespace rivulet
