// Protocol 1 is what stands in protocol_1.txt: a client's life, recorded byte by byte. Today's client must say the same
// to a coordinator of then and understand its answers, and today's server answer a client of then with the same bytes.
// RIVULET_RECORD_TRANSCRIPT=1 records it anew, which is another protocol.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <cstdlib>
#include <fstream>

#include "federated/transport/grpc_client.h"
#include "federated/transport/grpc_server.h"
#include "federated/updates/block_crcs.h"
#include "proto/rpc/coordinator.grpc.pb.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

// One message, of a call's method ("Poll"), from the client or to it.
struct Said {
  std::string method;
  bool reply = false;
  std::string bytes;
  bool operator==(const Said&) const = default;
};

std::string TranscriptPath() { return std::string(RIVULET_SOURCE_DIR) + "/tests/transport/protocol_1.txt"; }

std::vector<Said> Recorded() {
  std::vector<Said> all;
  std::ifstream file(TranscriptPath());
  for (std::string line; std::getline(file, line);) {
    const size_t space = line.find(' ');
    Said said{line.substr(0, space), line.at(space + 1) == '<', ""};
    for (size_t at = space + 3; at + 1 < line.size(); at += 2) {
      said.bytes += static_cast<char>(std::stoi(line.substr(at, 2), nullptr, 16));
    }
    all.push_back(std::move(said));
  }
  return all;
}

void Record(const std::vector<Said>& all) {
  std::ofstream file(TranscriptPath());
  for (const Said& said : all) {
    file << said.method << (said.reply ? " < " : " > ");
    for (const char byte : said.bytes) file << fmt::format("{:02x}", static_cast<uint8_t>(byte));
    file << "\n";
  }
}

// The other end of the story.
constexpr std::string_view kPlanOfThen = "the plan of then", kUpdateOfThen = "an update of then";

Task TaskOfThen() {
  Task task;
  task.id = "run-7-r3-a1-ward 1-0";
  task.run_id = "run-7";
  task.client_id = "ward 1";
  task.base_version = 2;
  task.stream_key = 0x0123456789abcdef;
  task.plan = Sha256Of(kPlanOfThen);
  task.inputs = {{"model", {BlobId::Form::kModel, Sha256Of("model")}}};
  task.state_of = "run-7-r1-a1-ward 1-0";
  return task;
}

class CoordinatorOfThen : public CoordinatorApi {
 public:
  StatusOr<PollReply> Poll(const PollRequest& request) override {
    PollReply reply;
    if (!request.working_on.empty()) {
      reply.wait_ms = 15'000;
    } else if (polls_++ == 0) {
      reply.wait_ms = 2'000;
      reply.awaited.sentence = "1 of 2 clients; round 3 starts when all have joined";
    } else if (polls_ == 2) {
      reply.tasks = {TaskOfThen()};
      reply.wait_ms = 15'000;
    } else {
      reply.outcomes = {{TaskOfThen().id, TaskEnd::kFolded, "", true}};
      reply.over = PollReply::Over{.failed = false, .sentence = "the run has finished after round 3"};
    }
    return reply;
  }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller&, const BlobId&, int64_t offset) override {
    class Reader : public ChunkReader {
     public:
      explicit Reader(int64_t offset) : rest_(kPlanOfThen.substr(static_cast<size_t>(offset))) {}
      int64_t total_bytes() const override { return std::ssize(kPlanOfThen); }
      StatusOr<std::span<const std::byte>> Next() override {
        return std::as_bytes(std::span(std::exchange(rest_, {})));
      }

     private:
      std::string_view rest_;
    };
    return std::make_unique<Reader>(offset);
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller&, const Submission&) override {
    class Writer : public ChunkWriter {
     public:
      std::span<const uint32_t> staged_crcs() const override { return {}; }
      Status Resume(int64_t) override { return absl::OkStatus(); }
      Status Write(std::span<const std::byte>) override { return absl::OkStatus(); }
      StatusOr<SubmitResult> Finish(const Digest&) override {
        return SubmitResult{SubmitResult::Kind::kRefused, "its training diverged"};
      }
    };
    return std::make_unique<Writer>();
  }
  Status Fail(const Caller&, const TaskFailure&) override { return absl::OkStatus(); }

 private:
  int polls_ = 0;
};

// What a client does in it, and what it must understand.
void LiveAsThen(CoordinatorApi& api) {
  PollRequest request;
  request.caller = {.name = "ward 1", .session = 77};
  request.capabilities = {.version = "0.1.0", .protocol = kProtocol, .datasets = {{"train", 25, {"icu"}}}};
  request.hold_ms = 20'000;
  const StatusOr<PollReply> awaited = api.Poll(request);
  ASSERT_OK(awaited);
  EXPECT_EQ(awaited->awaited.sentence, "1 of 2 clients; round 3 starts when all have joined");
  request.told = true;
  const StatusOr<PollReply> given = api.Poll(request);
  ASSERT_OK(given);
  ASSERT_EQ(given->tasks.size(), 1u);
  const Task& task = given->tasks[0];
  EXPECT_EQ(task.id, TaskOfThen().id);
  EXPECT_EQ(task.stream_key, TaskOfThen().stream_key);
  EXPECT_EQ(task.inputs[0].id, TaskOfThen().inputs[0].id);
  EXPECT_EQ(task.state_of, TaskOfThen().state_of);
  request.caller.run_id = task.run_id;
  const auto reader = api.Fetch(request.caller, {BlobId::Form::kBytes, task.plan}, 4);
  ASSERT_OK(reader);
  std::string plan;
  for (;;) {
    const auto chunk = (*reader)->Next();
    ASSERT_OK(chunk);
    if (chunk->empty()) break;
    plan.append(reinterpret_cast<const char*>(chunk->data()), chunk->size());
  }
  EXPECT_EQ(plan, kPlanOfThen.substr(4));
  request.working_on = {{task.id}};
  request.want = 0;
  request.hold_ms = 0;
  EXPECT_OK(api.Poll(request));
  Submission submission;
  submission.task = task.id;
  submission.bytes = std::ssize(kUpdateOfThen);
  submission.measured.train_seconds = 1.25;
  const auto writer = api.Submit(request.caller, submission);
  ASSERT_OK(writer);
  EXPECT_TRUE((*writer)->staged_crcs().empty());
  BlockCrcs crcs;
  crcs.Append(std::as_bytes(std::span(kUpdateOfThen)));
  ASSERT_OK((*writer)->Resume(0));
  ASSERT_OK((*writer)->Write(std::as_bytes(std::span(kUpdateOfThen))));
  const auto result = (*writer)->Finish(crcs.Identity(0));
  ASSERT_OK(result);
  EXPECT_EQ(result->kind, SubmitResult::Kind::kRefused);
  EXPECT_EQ(result->reason, "its training diverged");
  TaskFailure failure{.task = task.id, .code = TaskFailure::Code::kBadExample};
  failure.subject = "image";
  EXPECT_OK(api.Fail(request.caller, failure));
  request.working_on.clear();
  request.want = 1;
  const auto over = api.Poll(request);
  ASSERT_OK(over);
  ASSERT_TRUE(over->over);
  EXPECT_EQ(over->over->sentence, "the run has finished after round 3");
  ASSERT_EQ(over->outcomes.size(), 1u);
  EXPECT_TRUE(over->outcomes[0].durable);
}

// A call of bytes, one message at a time.
class RawCall {
 public:
  RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method) : stub_(channel) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    call_ = stub_.PrepareCall(&context_, "/rivulet.rpc.Coordinator/" + method, &queue_);
    call_->StartCall(nullptr);
    EXPECT_TRUE(Next());
  }
  void Write(const std::string& bytes) {
    grpc::Slice slice(bytes);
    call_->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    EXPECT_TRUE(Next());
  }
  std::optional<std::string> Read() {
    grpc::ByteBuffer buffer;
    call_->Read(&buffer, nullptr);
    if (!Next()) return std::nullopt;
    grpc::Slice slice;
    EXPECT_TRUE(buffer.DumpToSingleSlice(&slice).ok());
    return std::string(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  void Finish() {
    call_->WritesDone(nullptr);
    (void)Next();
    while (Read()) ADD_FAILURE() << "there is more than was recorded";
    grpc::Status status;
    call_->Finish(&status, nullptr);
    EXPECT_TRUE(Next());
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

 private:
  bool Next() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

// A coordinator of then: says what was recorded, and hears whether its client says what was. Or records, of the server
// behind `channel`.
class CoordinatorOnRecord : public rpc::Coordinator::Service {
 public:
  explicit CoordinatorOnRecord(std::vector<Said> recorded) : recorded_(std::move(recorded)) {}
  explicit CoordinatorOnRecord(std::shared_ptr<grpc::Channel> channel) : channel_(std::move(channel)) {}
  const std::vector<Said>& heard() const { return heard_; }

  grpc::Status Poll(grpc::ServerContext*, const rpc::PollRequestProto* request, rpc::PollReplyProto* reply) override {
    return Unary("Poll", *request, reply);
  }
  grpc::Status Fail(grpc::ServerContext*, const rpc::FailRequestProto* request, rpc::FailReplyProto* reply) override {
    return Unary("Fail", *request, reply);
  }
  grpc::Status Fetch(grpc::ServerContext*, const rpc::FetchRequestProto* request,
                     grpc::ServerWriter<rpc::ChunkProto>* writer) override {
    Begin("Fetch");
    Hear("Fetch", *request);
    rpc::ChunkProto chunk;
    while (Answer("Fetch", &chunk)) writer->Write(chunk);
    return End();
  }
  grpc::Status Submit(grpc::ServerContext*,
                      grpc::ServerReaderWriter<rpc::SubmitReplyProto, rpc::SubmitMessageProto>* stream) override {
    Begin("Submit");
    rpc::SubmitMessageProto message;
    rpc::SubmitReplyProto reply;
    while (stream->Read(&message)) {
      Hear("Submit", message);
      const bool answered = message.has_header() || message.message_case() == rpc::SubmitMessageProto::kFinish;
      if (answered && Answer("Submit", &reply)) stream->Write(reply);
      if (message.message_case() == rpc::SubmitMessageProto::kFinish) break;
    }
    return End();
  }

 private:
  template <typename Reply>
  grpc::Status Unary(const std::string& method, const google::protobuf::MessageLite& request, Reply* reply) {
    Begin(method);
    Hear(method, request);
    EXPECT_TRUE(Answer(method, reply));
    return End();
  }
  void Begin(const std::string& method) {
    if (channel_ != nullptr) call_ = std::make_unique<RawCall>(channel_, method);
  }
  void Hear(const std::string& method, const google::protobuf::MessageLite& message) {
    heard_.push_back({method, false, message.SerializeAsString()});
    if (call_ != nullptr) call_->Write(heard_.back().bytes);
  }
  // Of the next message to the client, in what is recorded or from the server; false: there is none.
  template <typename Reply>
  bool Answer(const std::string& method, Reply* reply) {
    std::optional<std::string> bytes;
    if (call_ != nullptr) {
      bytes = call_->Read();
    } else if (heard_.size() < recorded_.size() && recorded_[heard_.size()].reply) {
      bytes = recorded_[heard_.size()].bytes;
    }
    if (!bytes) return false;
    heard_.push_back({method, true, *bytes});
    return reply->ParseFromString(*bytes);
  }
  grpc::Status End() {
    if (call_ != nullptr) call_->Finish();
    call_.reset();
    return grpc::Status::OK;
  }

  const std::vector<Said> recorded_;
  const std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<RawCall> call_;
  std::vector<Said> heard_;
};

class TranscriptTest : public ::testing::Test {
 protected:
  // Of today's client with this coordinator.
  static void Meet(CoordinatorOnRecord& coordinator, bool zstd = false) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&coordinator);
    const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    ASSERT_NE(server, nullptr);
    const auto client = GrpcClient::Create(
        {.coordinator = {.host = "127.0.0.1", .port = port}, .credentials = InsecureCredentials(false), .zstd = zstd});
    ASSERT_OK(client);
    LiveAsThen(**client);
    server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  }
  TranscriptTest()
      : server_(GrpcServer::Start(
                    then_, {.listen = {.host = "127.0.0.1", .port = 0}, .credentials = InsecureCredentials(false)})
                    .value()),
        channel_(grpc::CreateChannel(server_->address().ToString(), grpc::InsecureChannelCredentials())) {
    if (std::getenv("RIVULET_RECORD_TRANSCRIPT") == nullptr) return;
    CoordinatorOnRecord recorder(channel_);
    Meet(recorder);
    Record(recorder.heard());
  }

  CoordinatorOfThen then_;
  std::unique_ptr<GrpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(TranscriptTest, TodaysClient_SaysToACoordinatorOfThenWhatWasRecorded) {
  const std::vector<Said> recorded = Recorded();
  ASSERT_GT(recorded.size(), 15u);
  CoordinatorOnRecord coordinator(recorded);
  Meet(coordinator);
  ASSERT_EQ(coordinator.heard().size(), recorded.size());
  for (size_t i = 0; i < recorded.size(); ++i) {
    EXPECT_TRUE(coordinator.heard()[i] == recorded[i]) << recorded[i].method << ", message " << i;
  }
}

// It says so in two messages, to whom it means nothing, and then sends what it always did.
TEST_F(TranscriptTest, ClientThatWouldPack_IsUnderstoodByACoordinatorOfThen) {
  const std::vector<Said> recorded = Recorded();
  CoordinatorOnRecord coordinator(recorded);
  Meet(coordinator, true);
  ASSERT_EQ(coordinator.heard().size(), recorded.size());
  int others = 0;
  for (size_t i = 0; i < recorded.size(); ++i) {
    std::string said = coordinator.heard()[i].bytes;
    rpc::FetchRequestProto fetch;
    rpc::SubmitMessageProto submit;
    if (recorded[i].method == "Fetch" && !recorded[i].reply && fetch.ParseFromString(said) && fetch.zstd()) {
      fetch.clear_zstd();
      said = fetch.SerializeAsString();
      ++others;
    } else if (recorded[i].method == "Submit" && !recorded[i].reply && submit.ParseFromString(said) &&
               submit.header().zstd()) {
      submit.mutable_header()->clear_zstd();
      said = submit.SerializeAsString();
      ++others;
    }
    EXPECT_EQ(said, recorded[i].bytes) << recorded[i].method << ", message " << i;
  }
  EXPECT_EQ(others, 2);
}

TEST_F(TranscriptTest, ClientOfThen_IsAnsweredByTodaysServerAsWasRecorded) {
  const std::vector<Said> recorded = Recorded();
  if (std::getenv("RIVULET_RECORD_TRANSCRIPT") != nullptr) GTEST_SKIP() << "its server has told the story just now";
  std::unique_ptr<RawCall> call;
  for (size_t i = 0; i < recorded.size(); ++i) {
    const Said& said = recorded[i];
    SCOPED_TRACE(fmt::format("{}, message {}", said.method, i));
    if (said.reply) {
      EXPECT_EQ(call->Read(), said.bytes);
    } else {
      const bool goes_on = i > 0 && said.method == "Submit" && recorded[i - 1].method == "Submit";
      if (!goes_on) {
        if (call != nullptr) call->Finish();
        call = std::make_unique<RawCall>(channel_, said.method);
      }
      call->Write(said.bytes);
    }
  }
  call->Finish();
}

}  // namespace
}  // namespace rivulet
