// Peers that speak no gRPC at all, or damaged gRPC, and many of them: each is cut off or refused, and an honest client
// beside them is served as if they were not there.
#include <arpa/inet.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>

#include "federated/transport/grpc_client.h"
#include "federated/transport/grpc_control.h"
#include "federated/transport/grpc_server.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// Answers polls; counts those that came so far that they were one.
class PolledCoordinator : public CoordinatorApi {
 public:
  StatusOr<PollReply> Poll(const PollRequest&) override {
    ++polls;
    return PollReply{};
  }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller&, const BlobId&, int64_t) override {
    return NotFound("no blob");
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller&, const Submission&) override {
    return NotFound("no task");
  }
  Status Fail(const Caller&, const TaskFailure&) override { return absl::OkStatus(); }
  std::atomic<int> polls = 0;
};

// A connection whose bytes are the test's.
class RawConnection {
 public:
  explicit RawConnection(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  RawConnection(RawConnection&& other) noexcept : fd_(std::exchange(other.fd_, -1)), connected_(other.connected_) {}
  ~RawConnection() {
    if (fd_ >= 0) close(fd_);
  }
  bool connected() const { return connected_; }
  void Send(std::string_view bytes) { (void)send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  // Reads whatever comes until the other end hangs up; false: it has not within `wait`.
  bool IsHungUpWithin(milliseconds wait) {
    const auto until = Steady::now() + wait;
    char bytes[4096];
    for (;;) {
      const auto left = std::chrono::duration_cast<milliseconds>(until - Steady::now());
      pollfd ready{fd_, POLLIN, 0};
      if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) <= 0) return false;
      if (recv(fd_, bytes, sizeof(bytes), 0) <= 0) return true;
    }
  }

 private:
  int fd_;
  bool connected_ = false;
};

std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload, int64_t length = -1) {
  const auto size = static_cast<uint32_t>(length < 0 ? std::ssize(payload) : length);
  std::string frame;
  for (const uint32_t byte : {size >> 16, size >> 8, size}) frame += static_cast<char>(byte);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  for (const uint32_t byte : {stream >> 24, stream >> 16, stream >> 8, stream}) frame += static_cast<char>(byte);
  return frame + std::string(payload);
}
enum : uint8_t { kData = 0, kHeaders = 1, kReset = 3, kSettings = 4, kPing = 6, kWindowUpdate = 8, kContinuation = 9 };

class HostilePeersTest : public ::testing::Test {
 protected:
  HostilePeersTest()
      : server_(GrpcServer::Start(
                    api_, {.listen = {.host = "127.0.0.1", .port = 0}, .credentials = InsecureCredentials(false)})
                    .value()),
        honest_(GrpcClient::Create({.coordinator = server_->address(), .credentials = InsecureCredentials(false)})
                    .value()) {
    PollHonestly();
  }
  uint16_t port() const { return static_cast<uint16_t>(server_->address().port); }
  void PollHonestly() {
    const auto begin = Steady::now();
    EXPECT_OK(honest_->Poll({.caller = {.name = "honest"}}));
    EXPECT_LT(Steady::now() - begin, std::chrono::seconds(20));
  }
  // Whoever comes new is served too.
  void PollAsANewcomer() {
    const auto newcomer =
        GrpcClient::Create({.coordinator = server_->address(), .credentials = InsecureCredentials(false)}).value();
    EXPECT_OK(newcomer->Poll({.caller = {.name = "newcomer"}}));
  }

  PolledCoordinator api_;
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<GrpcClient> honest_;
};

TEST_F(HostilePeersTest, BytesThatAreNoHttp2_AreHungUpOn) {
  std::mt19937_64 random(7);
  for (const std::string_view first : {std::string_view("GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
                                       std::string_view("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),
                                       std::string_view("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n")}) {
    RawConnection peer(port());
    ASSERT_TRUE(peer.connected());
    peer.Send(first);
    std::string noise(20'000, '\0');
    for (char& byte : noise) byte = static_cast<char>(random());
    peer.Send(noise);
    EXPECT_TRUE(peer.IsHungUpWithin(std::chrono::seconds(10))) << first;
    PollHonestly();
  }
  EXPECT_EQ(api_.polls, 4);
}

// A connection that begins well, and then breaks a rule of HTTP/2.
TEST_F(HostilePeersTest, DamagedHttp2_EndsItsConnectionAlone) {
  const std::string begin = std::string(kPreface) + Frame(kSettings, 0, 0, "");
  const struct {
    const char* what;
    std::string bytes;
  } damaged[] = {
      {"a frame of 16 MB", Frame(kData, 0, 1, "", 0xffffff)},
      {"settings of five bytes", Frame(kSettings, 0, 0, "12345")},
      {"settings of a stream", Frame(kSettings, 0, 3, "")},
      {"headers that are no HPACK", Frame(kHeaders, 4, 1, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")},
      {"headers of stream 0", Frame(kHeaders, 4, 0, "")},
      {"a continuation of nothing", Frame(kContinuation, 4, 1, "x")},
      {"a ping of three bytes", Frame(kPing, 0, 0, "abc")},
      {"a window that grows by nothing", Frame(kWindowUpdate, 0, 0, std::string(4, '\0'))},
  };
  for (const auto& [what, bytes] : damaged) {
    SCOPED_TRACE(what);
    RawConnection peer(port());
    ASSERT_TRUE(peer.connected());
    peer.Send(begin + bytes + std::string(1000, '\xee'));
    EXPECT_TRUE(peer.IsHungUpWithin(std::chrono::seconds(10)));
    PollHonestly();
  }
  PollAsANewcomer();
}

// Valid HTTP/2, and what is called is there; only the message is none.
TEST_F(HostilePeersTest, MessageThatIsNoProtobuf_IsRefusedBeforeAnybodySeesIt) {
  const auto channel = grpc::CreateChannel(server_->address().ToString(), grpc::InsecureChannelCredentials());
  const int before = api_.polls;
  std::mt19937_64 random(11);
  int refused = 0;
  for (int i = 0; i < 50; ++i) {
    // A field that says to be longer than the message: no luck makes one of it.
    std::string message = std::string("\x0a\xff\xff\x03", 4);
    for (int k = 0; k < i; ++k) message += static_cast<char>(random());
    grpc::GenericStub stub(channel);
    grpc::Slice slice(message);
    grpc::ByteBuffer request(&slice, 1), reply;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareUnaryCall(&context, "/rivulet.rpc.Coordinator/Poll", request, &queue);
    call->StartCall();
    grpc::Status status;
    call->Finish(&reply, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    refused += !status.ok();
  }
  EXPECT_EQ(refused, 50);
  EXPECT_EQ(api_.polls, before);
  PollHonestly();
}

// One grammar of names at every call: what is refused here would stand in a log, a row or on a terminal.
TEST_F(HostilePeersTest, NameThatDoesNotShow_IsRefusedAtEveryCall) {
  const int before = api_.polls;
  for (const std::string& name :
       {std::string(), std::string("a\nround 9: done"), std::string("\x1b[2J"), std::string("a\0", 2),
        std::string("\xe2\x80\xae"
                    "a"),
        std::string("\xc2\x9b"
                    "1m"),
        std::string(256, 'a'), std::string(100'000, 'a')}) {
    SCOPED_TRACE(name.substr(0, 20));
    const Caller caller{.name = name};
    EXPECT_EQ(honest_->Poll({.caller = caller}).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(honest_->Fetch(caller, {}, 0).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(honest_->Submit(caller, {.task = "t", .bytes = 1}).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(honest_->Fail(caller, {.task = "t"}).code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(api_.polls, before);
  EXPECT_OK(honest_->Poll({.caller = {.name = "Spital Zürich, Ward 7"}}));
}

// gRPC would unpack 40 MB out of 40 KB before it looked at the length; its error would tell.
TEST_F(HostilePeersTest, CompressedMessage_IsNotUnpackedByAServer) {
  const auto channel = grpc::CreateChannel(server_->address().ToString(), grpc::InsecureChannelCredentials());
  grpc::GenericStub stub(channel);
  const std::string zeros(40 << 20, '\0');
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    grpc::Slice slice(zeros);
    grpc::ByteBuffer request(&slice, 1), reply;
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareUnaryCall(&context, "/rivulet.rpc.Coordinator/Poll", request, &queue);
    call->StartCall();
    grpc::Status status;
    call->Finish(&reply, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    EXPECT_EQ(status.error_message().find(std::to_string(zeros.size())), std::string::npos) << status.error_message();
  }
  EXPECT_EQ(api_.polls, 1);
  PollHonestly();
}

// Answers every call with zeros, packed.
class PackingServer : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    context->set_compression_algorithm(GRPC_COMPRESS_GZIP);
    class Answer : public grpc::ServerGenericBidiReactor {
     public:
      Answer() : slice_(std::string(40 << 20, '\0')), zeros_(&slice_, 1) {
        StartWriteAndFinish(&zeros_, grpc::WriteOptions(), grpc::Status::OK);
      }
      void OnDone() override { delete this; }

     private:
      grpc::Slice slice_;
      grpc::ByteBuffer zeros_;
    };
    return new Answer;
  }
};

TEST(HostileServer, CompressedMessage_IsNotUnpackedByAClient) {
  PackingServer packing;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterCallbackGenericService(&packing);
  const auto server = builder.BuildAndStart();
  const NetworkAddress address{.host = "127.0.0.1", .port = static_cast<uint16_t>(port)};
  const auto client = GrpcClient::Create({.coordinator = address, .credentials = InsecureCredentials(false)}).value();
  const auto reply = client->Poll({.caller = {.name = "a"}});
  EXPECT_FALSE(reply.ok());
  EXPECT_EQ(Message(reply.status()).find(std::to_string(40 << 20)), std::string_view::npos) << Message(reply.status());
  const auto fetched = client->Fetch({.name = "a"}, {}, 0);
  EXPECT_FALSE(fetched.ok());
  EXPECT_EQ(Message(fetched.status()).find(std::to_string(40 << 20)), std::string_view::npos);
  const auto control = ConnectControl({.coordinator = address, .credentials = InsecureCredentials(false)}).value();
  const auto runs = control->Runs({});
  EXPECT_FALSE(runs.ok());
  EXPECT_EQ(Message(runs.status()).find(std::to_string(40 << 20)), std::string_view::npos);
  server->Shutdown(std::chrono::system_clock::now());
}

// More connections than a site would ever open, which say nothing, half a preface, or nothing but pings and resets.
TEST_F(HostilePeersTest, FloodOfConnections_LocksNobodyOut) {
  std::vector<RawConnection> flood;
  std::string resets = std::string(kPreface) + Frame(kSettings, 0, 0, "");
  for (int i = 0; i < 200; ++i) resets += Frame(kPing, 0, 0, "01234567");
  for (int i = 0; i < 400; ++i) {
    RawConnection& peer = flood.emplace_back(port());
    if (i % 4 == 1) peer.Send(kPreface.substr(0, 10));
    if (i % 4 == 2) peer.Send(resets);
    if (i % 100 == 0) PollHonestly();
  }
  PollHonestly();
  PollAsANewcomer();
  flood.clear();
  PollHonestly();
}

}  // namespace
}  // namespace rivulet
