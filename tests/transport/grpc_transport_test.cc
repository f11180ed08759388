// A GrpcClient speaking to a GrpcServer over loopback must be indistinguishable from direct calls to the api behind it,
// save that a lost connection is UNAVAILABLE.
#include <grpcpp/grpcpp.h>
#include <zstd.h>

#include <atomic>
#include <thread>

#include "engine/base/mutex.h"
#include "federated/transport/grpc_client.h"
#include "federated/transport/grpc_server.h"
#include "federated/updates/block_crcs.h"
#include "proto/rpc/coordinator.grpc.pb.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;

std::string Pattern(size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>((i * 2654435761u) >> 13);
  return text;
}

// A coordinator that remembers what it was asked and answers what the test set.
class FakeCoordinator : public CoordinatorApi {
 public:
  StatusOr<PollReply> Poll(const PollRequest& request) override {
    MutexLock lock(mutex);
    last_poll = request;
    return poll_reply;
  }

  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller&, const BlobId& blob, int64_t offset) override {
    MutexLock lock(mutex);
    if (blob != BlobId{BlobId::Form::kModel, Sha256Of(this->blob)}) return NotFound("no blob {}", blob.digest.Hex());
    if (offset > static_cast<int64_t>(this->blob.size())) return OutOfRange("offset {} is beyond the end", offset);
    class Reader : public ChunkReader {
     public:
      Reader(FakeCoordinator& fake, int64_t offset) : fake_(fake), offset_(static_cast<size_t>(offset)) {}
      int64_t total_bytes() const override { return static_cast<int64_t>(fake_.blob.size()); }
      StatusOr<std::span<const std::byte>> Next() override {
        if (fake_.fail_fetch_at != 0 && offset_ >= fake_.fail_fetch_at) return DataLoss("the model's file shrank");
        const size_t n = std::min<size_t>(fake_.fetch_chunk, fake_.blob.size() - offset_);
        const auto part = std::as_bytes(std::span(fake_.blob)).subspan(offset_, n);
        offset_ += n;
        return part;
      }

     private:
      FakeCoordinator& fake_;
      size_t offset_;
    };
    return std::make_unique<Reader>(*this, offset);
  }

  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override {
    MutexLock lock(mutex);
    if (submission.task != "task-1") return NotFound("no task '{}' for client '{}'", submission.task, caller.name);
    announced = submission.bytes;
    last_step = submission.step;
    last_train_seconds = submission.measured.train_seconds.value_or(0);
    class Writer : public ChunkWriter {
     public:
      explicit Writer(FakeCoordinator& fake) : fake_(fake), crcs_(fake.staged_crcs) {}
      const SubmitResult* decided() const override { return fake_.decided ? &*fake_.decided : nullptr; }
      std::span<const uint32_t> staged_crcs() const override { return crcs_; }
      Status Resume(int64_t offset) override {
        MutexLock lock(fake_.mutex);
        fake_.resumed_at = offset;
        return absl::OkStatus();
      }
      Status Write(std::span<const std::byte> chunk) override {
        MutexLock lock(fake_.mutex);
        if (fake_.staged.size() + chunk.size() > static_cast<size_t>(fake_.announced)) {
          return InvalidArgument("more than the {} bytes announced", fake_.announced);
        }
        fake_.staged.append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
        fake_.largest_chunk = std::max(fake_.largest_chunk, chunk.size());
        fake_.moved.NotifyAll();
        return absl::OkStatus();
      }
      StatusOr<SubmitResult> Finish(const Digest& identity) override {
        if (Sha256Of(fake_.staged) != identity) return DataLoss("another identity");
        return fake_.result;
      }

     private:
      FakeCoordinator& fake_;
      const std::vector<uint32_t> crcs_;
    };
    return std::make_unique<Writer>(*this);
  }

  Status Fail(const Caller& caller, const TaskFailure& failure) override {
    MutexLock lock(mutex);
    failed = caller.name + "/" + failure.task + "/" + failure.subject;
    return fail_status;
  }

  Mutex mutex;
  CondVar moved;
  PollRequest last_poll;
  StatusOr<PollReply> poll_reply = PollReply{};
  std::string blob;
  size_t fetch_chunk = 100'000;
  size_t fail_fetch_at = 0;
  int64_t announced = 0;
  int last_step = -1;
  double last_train_seconds = 0;
  std::optional<SubmitResult> decided;
  std::vector<uint32_t> staged_crcs;
  int64_t resumed_at = -1;
  std::string staged;
  size_t largest_chunk = 0;
  SubmitResult result;
  std::string failed;
  Status fail_status;
};

class GrpcTransportTest : public ::testing::Test {
 protected:
  void SetUp() override { StartServer(0, std::chrono::minutes(2)); }

  void StartServer(int port, std::chrono::milliseconds stall_timeout, bool admit_sites = false) {
    server_.reset();
    auto server = GrpcServer::Start(fake_, {.listen = {.host = "127.0.0.1", .port = port},
                                            .credentials = InsecureCredentials(false),
                                            .admit_sites = admit_sites,
                                            .limits = {.stall_timeout = stall_timeout}});
    ASSERT_OK(server);
    server_ = std::move(*server);
    auto client = GrpcClient::Create({.coordinator = server_->address(), .credentials = InsecureCredentials(false)});
    ASSERT_OK(client);
    client_ = std::move(*client);
  }

  StatusOr<std::string> FetchAll(CoordinatorApi& api, int64_t offset, const std::string& name = "client-00003") {
    RIVULET_ASSIGN_OR_RETURN(const auto reader,
                             api.Fetch({.name = name}, BlobId{BlobId::Form::kModel, Sha256Of(fake_.blob)}, offset));
    std::string bytes;
    while (true) {
      RIVULET_ASSIGN_OR_RETURN(const auto chunk, reader->Next());
      if (chunk.empty()) return bytes;
      bytes.append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
    }
  }

  FakeCoordinator fake_;
  const Caller caller_{.name = "client-00003", .run_id = "run-7"};
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<GrpcClient> client_;
};

// Every field of the messages is messages_test.cc's.
TEST_F(GrpcTransportTest, Poll_CarriesRequestAndReply) {
  PollReply reply{.tasks = {Task{.id = "task-1", .client_id = "client-00003"}}};
  reply.outcomes.push_back({"task-0", TaskEnd::kRefused, "NaN"});
  fake_.poll_reply = reply;
  const auto got =
      client_->Poll({caller_, {.version = "0.1.0", .datasets = {{"train", 600}, {"extra", int64_t{1} << 40}}}});
  ASSERT_OK(got);
  EXPECT_EQ(fake_.last_poll.caller.name, "client-00003");
  EXPECT_EQ(fake_.last_poll.caller.run_id, "run-7");
  EXPECT_EQ(fake_.last_poll.caller.certificate_serial, "");
  EXPECT_EQ(fake_.last_poll.capabilities.version, "0.1.0");
  EXPECT_EQ(fake_.last_poll.capabilities.protocol, kProtocol);
  ASSERT_EQ(fake_.last_poll.capabilities.datasets.size(), 2u);
  EXPECT_EQ(fake_.last_poll.capabilities.datasets[1].name, "extra");
  EXPECT_EQ(fake_.last_poll.capabilities.datasets[1].examples, int64_t{1} << 40);
  ASSERT_EQ(got->tasks.size(), 1u);
  EXPECT_EQ(got->tasks[0].id, "task-1");
  EXPECT_EQ(got->tasks[0].client_id, "client-00003");
  ASSERT_EQ(got->outcomes.size(), 1u);
  EXPECT_EQ(got->outcomes[0].reason, "NaN");
  EXPECT_FALSE(got->over);
}

TEST_F(GrpcTransportTest, StrangerWhoSpeaksForEveryName_IsRefused) {
  const auto got = client_->Poll({.caller = caller_, .serves = {Serves::Kind::kAny}});
  EXPECT_THAT(got, StatusIs(absl::StatusCode::kPermissionDenied, ::testing::HasSubstr("tasks of every client")));
  EXPECT_EQ(fake_.last_poll.caller.name, "") << "the coordinator must not have heard of it";
}

TEST_F(GrpcTransportTest, AggregatorWhereNoneIsAdmitted_IsToldHowItCouldBe) {
  const auto got = client_->Poll({.caller = caller_, .serves = {Serves::Kind::kNames}});
  EXPECT_THAT(got, StatusIs(absl::StatusCode::kPermissionDenied, ::testing::HasSubstr("with --aggregators")));
  EXPECT_EQ(fake_.last_poll.caller.name, "") << "the coordinator must not have heard of it";
}

TEST_F(GrpcTransportTest, StrangerWhoBringsPartialOrState_IsRefused) {
  for (const auto kind : {Submission::Kind::kPartial, Submission::Kind::kState}) {
    const auto got = client_->Submit(caller_, {.task = "task-1", .bytes = 3, .kind = kind});
    EXPECT_THAT(got, StatusIs(absl::StatusCode::kPermissionDenied, ::testing::HasSubstr("none is admitted here")));
  }
  EXPECT_EQ(fake_.announced, 0) << "the coordinator must not have heard of it";
}

TEST_F(GrpcTransportTest, ClientThatAnswersAStep_IsHeard) {
  EXPECT_OK(client_->Submit(caller_, {.task = "task-1", .step = 3, .bytes = 3, .kind = Submission::Kind::kStep}));
  EXPECT_EQ(fake_.announced, 3);
}

TEST_F(GrpcTransportTest, SitesThatAreAdmitted_AreHeard) {
  StartServer(0, std::chrono::minutes(2), true);
  EXPECT_OK(client_->Poll({.caller = caller_, .serves = {Serves::Kind::kAny}, .want = 8}));
  EXPECT_EQ(fake_.last_poll.serves.kind, Serves::Kind::kAny);
  EXPECT_EQ(fake_.last_poll.want, 8);
  EXPECT_OK(client_->Submit(caller_, {.task = "task-1", .bytes = 3, .kind = Submission::Kind::kPartial, .gather = 7}));
  EXPECT_EQ(fake_.announced, 3);
}

TEST_F(GrpcTransportTest, Errors_CrossWithCodeAndMessage) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kPermissionDenied, absl::StatusCode::kNotFound, absl::StatusCode::kInvalidArgument,
        absl::StatusCode::kResourceExhausted, absl::StatusCode::kFailedPrecondition, absl::StatusCode::kDataLoss,
        absl::StatusCode::kDeadlineExceeded, absl::StatusCode::kInternal, absl::StatusCode::kUnknown}) {
    fake_.poll_reply = Status(code, "client 'a' is not welcome: ünïcode, 100 %");
    const auto got = client_->Poll({caller_});
    EXPECT_THAT(got, StatusIs(code, "client 'a' is not welcome: ünïcode, 100 %"));
  }
}

TEST_F(GrpcTransportTest, ErrorLongerThanAHeader_IsCutAndKeepsItsCode) {
  fake_.poll_reply = InvalidArgument("{}", std::string(100'000, '%'));
  const auto got = client_->Poll({caller_});
  EXPECT_THAT(got, StatusIs(absl::StatusCode::kInvalidArgument, ::testing::StartsWith("%%%%")));
}

TEST_F(GrpcTransportTest, Fail_CarriesTaskAndReasonAndAnswers) {
  EXPECT_OK(client_->Fail(caller_, {.task = "task-1", .subject = "label"}));
  EXPECT_EQ(fake_.failed, "client-00003/task-1/label");
  fake_.fail_status = NotFound("no such task");
  EXPECT_THAT(client_->Fail(caller_, {.task = "task-1"}), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(GrpcTransportTest, Fetch_GivesTheSameBytesWhateverTheChunks) {
  fake_.blob = Pattern(3'000'001);
  for (const size_t chunk : {size_t{70'000}, size_t{262'144}, size_t{3'000'001}}) {
    fake_.fetch_chunk = chunk;
    const auto got = FetchAll(*client_, 0);
    ASSERT_OK(got);
    EXPECT_TRUE(*got == fake_.blob) << chunk;
  }
}

// Nine bytes of ten are zero, as of a sparse update.
std::string SparsePattern(size_t bytes) {
  std::string text = Pattern(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    if (i % 40 >= 4) text[i] = '\0';
  }
  return text;
}

TEST_F(GrpcTransportTest, WhoAsksForPacking_MovesTheSameBytesInFewer) {
  const std::string bytes = SparsePattern(3'000'001);
  const Submission submission{.task = "task-1", .bytes = std::ssize(bytes)};
  for (const bool zstd : {false, true}) {
    SCOPED_TRACE(zstd);
    StartServer(0, std::chrono::minutes(2));
    fake_.blob = bytes;
    fake_.staged.clear();
    const auto client = GrpcClient::Create(
        {.coordinator = server_->address(), .credentials = InsecureCredentials(false), .zstd = zstd});
    ASSERT_OK(client);
    EXPECT_TRUE(FetchAll(**client, 1'000).value() == bytes.substr(1'000));
    const auto writer = (*client)->Submit(caller_, submission);
    ASSERT_OK(writer);
    ASSERT_OK((*writer)->Resume(0));
    ASSERT_OK((*writer)->Write(std::as_bytes(std::span(bytes))));
    ASSERT_OK((*writer)->Finish(Sha256Of(bytes)));
    EXPECT_TRUE(fake_.staged == bytes);
    const TransferTotals moved = server_->transferred();
    EXPECT_EQ(moved.up, std::ssize(bytes));
    EXPECT_EQ(moved.down, std::ssize(bytes) - 1'000);
    if (zstd) {
      EXPECT_LT(moved.up_wire, moved.up / 3);
      EXPECT_LT(moved.down_wire, moved.down / 3);
    } else {
      EXPECT_GT(moved.up_wire, moved.up);
      EXPECT_GT(moved.down_wire, moved.down);
    }
  }
}

// What was damaged on its way is refused like what was damaged unpacked, and may be sent again.
TEST_F(GrpcTransportTest, PackedChunkThatIsNone_EndsItsUploadAlone) {
  const auto channel = grpc::CreateChannel(server_->address().ToString(), grpc::InsecureChannelCredentials());
  const auto stub = rpc::Coordinator::NewStub(channel);
  std::string bomb(1 << 20, '\0');
  const std::string zeros(64 << 20, '\0');
  bomb.resize(ZSTD_compress(bomb.data(), bomb.size(), zeros.data(), zeros.size(), 1));
  for (const auto& [chunk, why] :
       {std::pair{std::string("not packed"), "a chunk of 10 bytes is no frame of zstd"},
        std::pair{bomb, "a compressed chunk claims 67108864 bytes, and at most 1048576 are allowed"}}) {
    grpc::ClientContext context;
    const auto stream = stub->Submit(&context);
    rpc::SubmitMessageProto message;
    message.mutable_header()->mutable_caller()->set_name("mallory");
    message.mutable_header()->mutable_submission()->set_task("task-1");
    message.mutable_header()->mutable_submission()->set_bytes(1'000);
    message.mutable_header()->set_zstd(true);
    rpc::SubmitReplyProto reply;
    ASSERT_TRUE(stream->Write(message));
    ASSERT_TRUE(stream->Read(&reply));
    EXPECT_TRUE(reply.staged().zstd());
    message.set_zstd(chunk);
    ASSERT_TRUE(stream->Write(message));
    EXPECT_FALSE(stream->Read(&reply));
    const grpc::Status end = stream->Finish();
    EXPECT_EQ(end.error_code(), grpc::StatusCode::DATA_LOSS);
    EXPECT_EQ(end.error_message(), why);
    EXPECT_EQ(fake_.staged, "");
  }
  EXPECT_OK(client_->Poll({caller_}));
}

TEST_F(GrpcTransportTest, FetchAtAnOffset_GivesTheRest) {
  fake_.blob = Pattern(1'000'000);
  EXPECT_TRUE(FetchAll(*client_, 999'999).value() == fake_.blob.substr(999'999));
  EXPECT_EQ(FetchAll(*client_, 1'000'000).value(), "");
  EXPECT_THAT(FetchAll(*client_, 1'000'001), StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(FetchAll(*client_, -1), StatusIs(absl::StatusCode::kOutOfRange));
}

// Whatever waits to go with other bytes would wait for ever: a process's first download often has the connection for
// itself.
TEST_F(GrpcTransportTest, FetchOfAShortBlob_NeedsNoOtherTraffic) {
  fake_.blob = Pattern(10'000);
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_TRUE(FetchAll(*client_, 0).value() == fake_.blob);
  }
}

TEST_F(GrpcTransportTest, FetchOfAnEmptyBlob_EndsAtOnce) { EXPECT_EQ(FetchAll(*client_, 0).value(), ""); }

TEST_F(GrpcTransportTest, FetchOfAnUnknownBlob_IsNotFoundAtTheCall) {
  const auto got = client_->Fetch(caller_, BlobId{BlobId::Form::kModel, Sha256Of("other")}, 0);
  EXPECT_THAT(got, StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(GrpcTransportTest, FetchThatFailsMidway_GivesThatError) {
  fake_.blob = Pattern(1'000'000);
  fake_.fail_fetch_at = 500'000;
  const auto got = FetchAll(*client_, 0);
  EXPECT_THAT(got, StatusIs(absl::StatusCode::kDataLoss, "the model's file shrank"));
}

TEST_F(GrpcTransportTest, Submit_StagesTheSameBytesInBoundedChunks) {
  const std::string update = Pattern(2'000'003);
  fake_.result = {SubmitResult::Kind::kDuplicate, "seen before"};
  auto writer = client_->Submit(caller_, {"task-1", 2, std::ssize(update), {.train_seconds = 0.5}});
  ASSERT_OK(writer);
  EXPECT_EQ((*writer)->decided(), nullptr);
  EXPECT_TRUE((*writer)->staged_crcs().empty());
  ASSERT_OK((*writer)->Resume(0));
  ASSERT_OK((*writer)->Write(std::as_bytes(std::span(update))));
  const auto result = (*writer)->Finish(Sha256Of(update));
  ASSERT_OK(result);
  EXPECT_EQ(result->kind, SubmitResult::Kind::kDuplicate);
  EXPECT_EQ(result->reason, "seen before");
  EXPECT_TRUE(fake_.staged == update);
  EXPECT_EQ(fake_.last_step, 2);
  EXPECT_EQ(fake_.last_train_seconds, 0.5);
  EXPECT_LE(fake_.largest_chunk, size_t{256} << 10);
  EXPECT_THAT((*writer)->Finish(Sha256Of(update)), StatusIs(absl::StatusCode::kFailedPrecondition));
}

// Short messages cost as much as long ones, so an update of one chunk is one packet: where it goes on, the chunk and
// the end. What more chunks follow does not wait.
TEST_F(GrpcTransportTest, ShortMessagesOfAnUpload_GoWithWhatFollowsThem) {
  const auto nothing_comes = [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    MutexLock lock(fake_.mutex);
    return fake_.resumed_at == -1 && fake_.staged.empty();
  };
  auto writer = client_->Submit(caller_, {"task-1", 0, 20}).value();
  ASSERT_OK(writer->Resume(0));
  EXPECT_TRUE(nothing_comes());
  ASSERT_OK(writer->Write(std::as_bytes(std::span("ten bytes.", 10))));
  {
    MutexLock lock(fake_.mutex);
    while (fake_.staged.empty()) fake_.moved.Wait(fake_.mutex);
    EXPECT_EQ(fake_.resumed_at, 0);
    fake_.resumed_at = -1;
    fake_.staged.clear();
  }
  ASSERT_OK(writer->Write(std::as_bytes(std::span("ten others", 10))));
  EXPECT_TRUE(nothing_comes());
  EXPECT_EQ(writer->Finish(Sha256Of("ten others"))->kind, SubmitResult::Kind::kAccepted);
}

TEST_F(GrpcTransportTest, SubmitOfAnUnknownTask_IsNotFoundAtTheCall) {
  const auto writer = client_->Submit(caller_, {"task-9", 0, 10});
  EXPECT_THAT(writer, StatusIs(absl::StatusCode::kNotFound, "no task 'task-9' for client 'client-00003'"));
}

TEST_F(GrpcTransportTest, SubmitOfADecidedTask_IsToldAtTheCall) {
  fake_.decided = SubmitResult{SubmitResult::Kind::kRefused, "too late"};
  const auto writer = client_->Submit(caller_, {"task-1", 0, 10});
  ASSERT_OK(writer);
  ASSERT_NE((*writer)->decided(), nullptr);
  EXPECT_EQ((*writer)->decided()->kind, SubmitResult::Kind::kRefused);
  EXPECT_EQ((*writer)->decided()->reason, "too late");
}

TEST_F(GrpcTransportTest, SubmitAfterALostConnection_GoesOnAtTheBlockStaged) {
  const std::string update = Pattern(2'000'000);
  constexpr size_t kBlock = BlockCrcs::kBlockBytes;
  {
    auto writer = client_->Submit(caller_, {"task-1", 0, 2'000'000}).value();
    ASSERT_OK(writer->Resume(0));
    ASSERT_OK(writer->Write(std::as_bytes(std::span(update)).first(kBlock)));
    MutexLock lock(fake_.mutex);
    while (fake_.staged.size() < kBlock) fake_.moved.Wait(fake_.mutex);
    fake_.staged_crcs = {0xFFFFFFFFu};
  }
  auto writer = client_->Submit(caller_, {"task-1", 0, 2'000'000}).value();
  ASSERT_EQ(writer->staged_crcs().size(), 1u);
  EXPECT_EQ(writer->staged_crcs()[0], 0xFFFFFFFFu);
  ASSERT_OK(writer->Resume(kBlock));
  ASSERT_OK(writer->Write(std::as_bytes(std::span(update)).subspan(kBlock)));
  EXPECT_EQ(writer->Finish(Sha256Of(update))->kind, SubmitResult::Kind::kAccepted);
  EXPECT_EQ(fake_.resumed_at, BlockCrcs::kBlockBytes);
  EXPECT_TRUE(fake_.staged == update);
}

TEST_F(GrpcTransportTest, MoreBlocksStagedThanAnUpdateHas_IsTheCoordinatorsFault) {
  fake_.staged_crcs = {1, 2};
  EXPECT_THAT(client_->Submit(caller_, {"task-1", 0, 2'000'000}), StatusIs(absl::StatusCode::kInternal));
}

TEST_F(GrpcTransportTest, SubmitOfTooMuch_GivesTheCoordinatorsReason) {
  const std::string update = Pattern(2'000'000);
  auto writer = client_->Submit(caller_, {"task-1", 0, 1'000'000}).value();
  Status status = writer->Write(std::as_bytes(std::span(update)));  // may be refused only at the close
  if (status.ok()) status = writer->Finish(Sha256Of(update)).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, "more than the 1000000 bytes announced"));
}

TEST_F(GrpcTransportTest, NobodyListens_IsUnavailableAndNamesTheAddress) {
  server_->Stop(std::chrono::milliseconds(0));
  const auto got = client_->Poll({caller_});
  EXPECT_THAT(got, StatusIs(absl::StatusCode::kUnavailable, ::testing::HasSubstr(server_->address().ToString())));
}

TEST_F(GrpcTransportTest, ServerStopsDuringAnUpload_IsUnavailable) {
  auto writer = client_->Submit(caller_, {"task-1", 0, 1'000'000}).value();
  server_->Stop(std::chrono::milliseconds(0));
  EXPECT_THAT(writer->Finish(Digest{}), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(GrpcTransportTest, ServerComesBack_TheSameClientReachesItAgain) {
  const int port = server_->address().port;
  auto client = std::move(client_);
  ASSERT_OK(client->Poll({caller_}));
  StartServer(port, std::chrono::minutes(2));
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  Status last;
  do {
    last = client->Poll({caller_}).status();
  } while (last.code() == absl::StatusCode::kUnavailable && std::chrono::steady_clock::now() < give_up);
  EXPECT_OK(last);
}

TEST_F(GrpcTransportTest, SecondServerOnTheSamePort_IsUnavailable) {
  const auto second =
      GrpcServer::Start(fake_, {.listen = server_->address(), .credentials = InsecureCredentials(false)});
  EXPECT_THAT(second, StatusIs(absl::StatusCode::kUnavailable, ::testing::HasSubstr("in use")));
}

TEST_F(GrpcTransportTest, PeerThatStallsInAnUpload_IsEnded) {
  StartServer(0, std::chrono::milliseconds(100));
  auto writer = client_->Submit(caller_, {"task-1", 0, 1'000'000}).value();
  // Nothing is written: the server ends the stream by itself, and the next calls say so.
  const std::string part = Pattern(1000);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  Status status;
  while (status.ok() && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // longer than the server's patience
    status = writer->Write(std::as_bytes(std::span(part)));
  }
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(GrpcTransportTest, Cancel_EndsCallsInFlightAndLaterOnes) {
  auto writer = client_->Submit(caller_, {"task-1", 0, 1'000'000}).value();
  client_->Cancel();
  EXPECT_THAT(writer->Finish(Digest{}), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(client_->Poll({caller_}), StatusIs(absl::StatusCode::kCancelled));
}

// Property: downloads of many callers at once over one connection do not mix.
TEST_F(GrpcTransportTest, ManyCallersAtOnce_EachGetsTheWholeBlob) {
  fake_.blob = Pattern(700'000);
  std::atomic<int> whole = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 32; ++i) {
    threads.emplace_back([&, i] {
      const auto got = FetchAll(*client_, 0, fmt::format("client-{}", i));
      if (got.ok() && *got == fake_.blob) ++whole;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(whole, 32);
}

TEST(GrpcClient, PortZero_IsRefused) {
  const auto client =
      GrpcClient::Create({.coordinator = {.host = "127.0.0.1", .port = 0}, .credentials = InsecureCredentials(false)});
  EXPECT_THAT(client, StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(GrpcClient, PlaintextBeyondLoopback_IsRefused) {
  const auto client = GrpcClient::Create(
      {.coordinator = {.host = "192.0.2.1", .port = 7000}, .credentials = InsecureCredentials(false)});
  EXPECT_THAT(client, StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace rivulet
