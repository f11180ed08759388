// Limits on the cost of streams at a server: peers that open them and stay silent, and clients that open too many.
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <thread>

#include "federated/transport/grpc_client.h"
#include "federated/transport/grpc_server.h"
#include "proto/rpc/coordinator.grpc.pb.h"
#include "rpc/stream_guard.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;
using Steady = std::chrono::steady_clock;

// Answers polls and takes uploads of any task.
class OpenCoordinator : public CoordinatorApi {
 public:
  StatusOr<PollReply> Poll(const PollRequest&) override { return PollReply{}; }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller&, const BlobId&, int64_t) override {
    return NotFound("no blob");
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller&, const Submission&) override {
    class Writer : public ChunkWriter {
     public:
      std::span<const uint32_t> staged_crcs() const override { return {}; }
      Status Resume(int64_t) override { return absl::OkStatus(); }
      Status Write(std::span<const std::byte>) override { return absl::OkStatus(); }
      StatusOr<SubmitResult> Finish(const Digest&) override { return SubmitResult{}; }
    };
    return std::make_unique<Writer>();
  }
  Status Fail(const Caller&, const TaskFailure&) override { return absl::OkStatus(); }
};

class StreamLimitsTest : public ::testing::Test {
 protected:
  void Start(const StreamLimits& limits) {
    server_ = GrpcServer::Start(api_, {.listen = {.host = "127.0.0.1", .port = 0},
                                       .credentials = InsecureCredentials(false),
                                       .limits = limits})
                  .value();
    channel_ = grpc::CreateChannel(server_->address().ToString(), grpc::InsecureChannelCredentials());
    stub_ = rpc::Coordinator::NewStub(channel_);
    client_ = NewClient();
  }
  std::unique_ptr<GrpcClient> NewClient() {
    return GrpcClient::Create({.coordinator = server_->address(), .credentials = InsecureCredentials(false)}).value();
  }
  // How long a poll takes on the connection of the half-open streams.
  std::chrono::nanoseconds PollBeside() {
    const auto begin = Steady::now();
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    rpc::PollRequestProto request;
    request.mutable_caller()->set_name("beside");
    rpc::PollReplyProto reply;
    EXPECT_TRUE(stub_->Poll(&context, request, &reply).ok());
    return Steady::now() - begin;
  }
  std::chrono::nanoseconds PollElsewhere() {
    const auto begin = Steady::now();
    EXPECT_OK(client_->Poll({.caller = {.name = "other"}}));
    return Steady::now() - begin;
  }

  OpenCoordinator api_;
  std::unique_ptr<GrpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<rpc::Coordinator::Stub> stub_;
  std::unique_ptr<GrpcClient> client_;
};

struct HalfOpen {
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<rpc::SubmitMessageProto, rpc::SubmitReplyProto>> stream;
};

TEST_F(StreamLimitsTest, SixHundredHalfOpenUploads_LockNobodyOut) {
  Start({.header_timeout = std::chrono::seconds(3)});
  PollBeside();  // both connections stand
  PollElsewhere();
  std::vector<std::unique_ptr<HalfOpen>> streams;
  for (int i = 0; i < 600; ++i) {
    streams.push_back(std::make_unique<HalfOpen>());
    streams.back()->stream = stub_->Submit(&streams.back()->context);
  }
  std::vector<std::chrono::nanoseconds> elsewhere, beside;
  for (int i = 0; i < 5; ++i) {
    elsewhere.push_back(PollElsewhere());
    beside.push_back(PollBeside());
  }
  std::sort(elsewhere.begin(), elsewhere.end());
  std::sort(beside.begin(), beside.end());
  // Whoever waited for one of them would wait for three seconds.
  EXPECT_LT(elsewhere[2], std::chrono::seconds(2));
  EXPECT_LT(beside[2], std::chrono::seconds(2));
  auto upload = client_->Submit({.name = "other"}, {"task", 0, 10});
  ASSERT_OK(upload);
  EXPECT_OK((*upload)->Finish({}));
  int refused = 0, silent = 0;
  for (const auto& half_open : streams) {
    rpc::SubmitReplyProto reply;
    EXPECT_FALSE(half_open->stream->Read(&reply));
    const grpc::StatusCode code = half_open->stream->Finish().error_code();
    ++(code == grpc::StatusCode::UNAVAILABLE ? refused : silent);
  }
  EXPECT_EQ(silent, 16) << "had until the time for a header was over";
  EXPECT_EQ(refused, 600 - 16);
  PollBeside();
}

TEST_F(StreamLimitsTest, ThirdUploadOfAName_IsToldToWait) {
  Start({});
  const auto second_client = NewClient(), third_client = NewClient();
  const Caller caller{.name = "a"};
  auto first = client_->Submit(caller, {"task", 0, 10});
  ASSERT_OK(first);
  const auto second = second_client->Submit(caller, {"task", 0, 10});
  ASSERT_OK(second);
  EXPECT_THAT(third_client->Submit(caller, {"task", 0, 10}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("client 'a' has 2 uploads under way")));
  EXPECT_OK(third_client->Submit({.name = "b"}, {"task", 0, 10}));
  first->reset();
  const auto give_up = Steady::now() + std::chrono::seconds(20);
  Status status;
  do {
    status = third_client->Submit(caller, {"task", 0, 10}).status();
  } while (absl::IsUnavailable(status) && Steady::now() < give_up);
  EXPECT_OK(status);
}

TEST_F(StreamLimitsTest, FirstMessageThatIsNoHeader_EndsTheStream) {
  Start({});
  HalfOpen half_open;
  half_open.stream = stub_->Submit(&half_open.context);
  rpc::SubmitMessageProto message;
  message.set_chunk("x");
  half_open.stream->Write(message);
  rpc::SubmitReplyProto reply;
  EXPECT_FALSE(half_open.stream->Read(&reply));
  EXPECT_EQ(half_open.stream->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

// Connections that break at every moment of an upload, many at once, and a server that stops in the middle of them.
TEST_F(StreamLimitsTest, UploadsCutAtAnyMoment_LeaveNothingBehind) {
  for (int round = 0; round < 20; ++round) {
    Start({.header_timeout = std::chrono::milliseconds(5), .stall_timeout = std::chrono::milliseconds(5)});
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        const auto client = NewClient();
        const std::string bytes(300'000, 'x');
        for (int i = 0; i < 10; ++i) {
          auto writer = client->Submit({.name = fmt::format("{}", t)}, {"task", 0, 1'000'000});
          // A server that has stopped is waited for by every call, and never comes back here.
          if (Message(writer.status()).find("cannot be reached") != std::string_view::npos) return;
          if (!writer.ok()) continue;
          if (i % 4 > 0) (void)(*writer)->Resume(0);
          if (i % 4 > 1) (void)(*writer)->Write(std::as_bytes(std::span(bytes)));
          if (i % 4 > 2) (void)(*writer)->Finish({});
          if (i % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(7));
        }
      });
    }
    if (round % 2 == 0) server_->Stop(std::chrono::milliseconds(round));
    for (std::thread& thread : threads) thread.join();
    server_.reset();
  }
}

}  // namespace
}  // namespace rivulet
