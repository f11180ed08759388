// Who may steer a coordinator, over real connections: operators alone, who may call nothing else; and every field of
// what they are told.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include "certificates/watched_identity.h"
#include "federated/transport/grpc_client.h"
#include "federated/transport/grpc_control.h"
#include "federated/transport/grpc_server.h"
#include "proto/rpc/control.grpc.pb.h"
#include "rpc/grpc_connection.h"
#include "tests/certificates/test_authority.h"

namespace rivulet::testing {
namespace {

using ::testing::HasSubstr;

class NeverAsked final : public CoordinatorApi {
 public:
  StatusOr<PollReply> Poll(const PollRequest&) override { return Asked(); }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller&, const BlobId&, int64_t) override { return Asked(); }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller&, const Submission&) override { return Asked(); }
  Status Fail(const Caller&, const TaskFailure&) override { return Asked(); }

 private:
  static Status Asked() { return Internal("a call came through"); }
};

// Remembers who asked for what, and answers with every field set.
class FakeControl final : public ControlApi {
 public:
  StatusOr<ServedRuns> Runs(const OperatorCaller& from) override {
    caller = from;
    return ServedRuns{.runs = {{"r-1", "study", "training", true, true, "2 of 3", 4, 50, 2, 5, 3, 9}},
                      .warnings = {"its list is old"}};
  }
  StatusOr<ClientPage> Clients(const OperatorCaller& from, const std::string& after) override {
    caller = from;
    ClientPage page;
    page.clients.push_back({after + "b", "connected", "why", "east", "r-1", 4, "r-1-r4-a1-b-0", "taken", 11, 12,
                            "its disk is full", 13, "0F", 14, "1.2.3"});
    page.more = after.empty();
    return page;
  }
  StatusOr<std::vector<AuditEntry>> Audit(const OperatorCaller& from) override {
    caller = from;
    return std::vector<AuditEntry>{{"2026-01-02T03:04:05.006Z", "alice", "0F", "ban", "r-1", "b", "noise"}};
  }
  StatusOr<std::string> Command(const OperatorCaller& from, const OperatorCommand& command) override {
    caller = from;
    if (command.action == "praise") return InvalidArgument("there is no '{}'", command.action);
    return fmt::format("{} {} {}", command.action, command.subject, command.detail);
  }
  StatusOr<std::string> StartRun(const OperatorCaller& from, const RunSubmission& submission) override {
    caller = from;
    submitted = submission;
    return fmt::format("{}/{}/{}", submission.scenario, submission.plan.size(), submission.arrays.size());
  }

  OperatorCaller caller;
  RunSubmission submitted;
};

class OperatorTls : public AuthorityTest {
 protected:
  void SetUp() override {
    ASSERT_OK(Init());
    ASSERT_OK(Issue("coordinator/localhost", "server", {"localhost", "127.0.0.1"}));
    ASSERT_OK(Issue("client/a", "a"));
    ASSERT_OK(Issue("aggregator/east", "east", {"localhost"}));
    ASSERT_OK(Issue("operator/alice", "alice"));
    ASSERT_OK_AND_ASSIGN(auto credentials, CredentialsOf("server"));
    ASSERT_OK_AND_ASSIGN(server_, GrpcServer::Start(api_, {.listen = {.host = "127.0.0.1"},
                                                           .credentials = std::move(credentials),
                                                           .admit_aggregators = true,
                                                           .limits = {},
                                                           .control = &control_}));
  }
  StatusOr<std::shared_ptr<const TransportCredentials>> CredentialsOf(const std::string& folder) {
    RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<WatchedIdentity> identity,
                             WatchedIdentity::Open(fs_, clock_, Path(folder), {.tell = {}, .look_every_ms = 0}));
    return TlsCredentials(std::move(identity), {});
  }
  NetworkAddress At() const { return {.host = "127.0.0.1", .port = server_->address().port}; }
  StatusOr<std::unique_ptr<ControlApi>> ControlAs(const std::string& folder) {
    RIVULET_ASSIGN_OR_RETURN(auto credentials, CredentialsOf(folder));
    return ConnectControl({.coordinator = At(), .credentials = std::move(credentials)});
  }

  NeverAsked api_;
  FakeControl control_;
  std::unique_ptr<GrpcServer> server_;
};

TEST_F(OperatorTls, Operator_IsToldEveryFieldAndKnownByItsCertificate) {
  ASSERT_OK_AND_ASSIGN(const auto control, ControlAs("alice"));
  ASSERT_OK_AND_ASSIGN(const auto runs, control->Runs({"mallory", ""}));
  EXPECT_EQ(control_.caller.name, "alice") << "whatever it calls itself";
  EXPECT_FALSE(control_.caller.serial.empty());
  EXPECT_THAT(runs.warnings, ::testing::ElementsAre("its list is old"));
  ASSERT_EQ(runs.runs.size(), 1u);
  const RunState& run = runs.runs[0];
  EXPECT_EQ(
      fmt::format("{} {} {} {} {} {} {} {} {} {} {} {}", run.run_id, run.name, run.state, run.paused, run.stopping,
                  run.awaits, run.round, run.rounds, run.attempt, run.selected, run.folded, run.clients),
      "r-1 study training true true 2 of 3 4 50 2 5 3 9");
  ASSERT_OK_AND_ASSIGN(const ClientPage page, control->Clients({}, "a"));
  EXPECT_FALSE(page.more);
  ASSERT_EQ(page.clients.size(), 1u);
  const ClientState& client = page.clients[0];
  EXPECT_EQ(fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", client.client_id, client.state, client.detail,
                        client.via, client.run_id, client.round, client.task, client.doing, client.since_unix_ms,
                        client.last_seen_unix_ms, client.error, client.error_unix_ms, client.serial,
                        client.valid_until_unix_ms, client.version),
            "ab connected why east r-1 4 r-1-r4-a1-b-0 taken 11 12 its disk is full 13 0F 14 1.2.3");
  ASSERT_OK_AND_ASSIGN(const auto audit, control->Audit({}));
  ASSERT_EQ(audit.size(), 1u);
  EXPECT_EQ(fmt::format("{} {} {} {} {} {} {}", audit[0].at, audit[0].operator_id, audit[0].serial, audit[0].action,
                        audit[0].run_id, audit[0].client_id, audit[0].detail),
            "2026-01-02T03:04:05.006Z alice 0F ban r-1 b noise");
  EXPECT_EQ(*control->Command({}, {"ban", "b", "noise"}), "ban b noise");
  EXPECT_THAT(control->Command({}, {"praise", "b", ""}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("there is no 'praise'")));
  EXPECT_EQ(*control->StartRun({}, {"s", "plan"}), "s/4/0");
  EXPECT_THAT(
      control->StartRun({}, {std::string(size_t{1} << 20, ' '), ""}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("to the coordinator's machine and start the run")));
}

TEST_F(OperatorTls, SubmissionOfManyMessages_ComesWhole) {
  ASSERT_OK_AND_ASSIGN(const auto control, ControlAs("alice"));
  RunSubmission large{.scenario = std::string(700'000, 's')};
  for (int i = 0; i < 500'000; ++i) large.plan += fmt::format("{:x} ", i);
  for (int i = 0; i < 200'000; ++i) large.arrays += fmt::format("{} ", i);
  ASSERT_OK(control->StartRun({}, large));
  EXPECT_EQ(control_.submitted.scenario, large.scenario);
  EXPECT_EQ(control_.submitted.plan, large.plan);
  EXPECT_EQ(control_.submitted.arrays, large.arrays);
}

// As an operator's program sends whose connection breaks, whose count is wrong, or that knows nothing of pieces.
TEST_F(OperatorTls, SubmissionCutOrLongerThanSaid_IsNotBegun) {
  ASSERT_OK_AND_ASSIGN(auto credentials, CredentialsOf("alice"));
  const auto connection = std::make_shared<ClientConnection>("coordinator", At(), std::move(credentials), "");
  const auto send = [&](uint64_t bytes, std::vector<std::string> plan) -> Status {
    ClientCall call(connection, std::chrono::seconds(60));
    rpc::StartRunReplyProto reply;
    const auto control = call.StubOf<rpc::Control>();
    const auto stream = control->StartRun(call.context(), &reply);
    for (const std::string& part : plan) {
      rpc::StartRunRequestProto piece;
      piece.set_bytes(std::exchange(bytes, 0));
      piece.set_plan(part);
      if (!stream->Write(piece)) break;
    }
    stream->WritesDone();
    return call.End(stream->Finish());
  };
  EXPECT_THAT(send(9, {"abc", "def"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ends after 6 of its 9 bytes; submit it again")));
  EXPECT_THAT(send(5, {"abc", "def"}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("of 5 bytes has 6")));
  EXPECT_THAT(send(0, {"abc", "def"}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("of 0 bytes has 6")));
  EXPECT_THAT(send(uint64_t{1} << 62, {"abc"}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most")));
  EXPECT_THAT(send(0, {}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ends after 0 of its 0 bytes")));
  EXPECT_EQ(control_.caller.name, "") << "none of these came through";
  ASSERT_OK(send(0, {"abc"}));
  EXPECT_EQ(control_.submitted.plan, "abc");
}

TEST_F(OperatorTls, ClientOrAggregator_MayNotSteer) {
  for (const char* folder : {"a", "east"}) {
    ASSERT_OK_AND_ASSIGN(const auto control, ControlAs(folder));
    const auto refused = StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("is not an operator's"));
    EXPECT_THAT(control->Runs({}), refused) << folder;
    EXPECT_THAT(control->Clients({}, ""), refused) << folder;
    EXPECT_THAT(control->Audit({}), refused) << folder;
    EXPECT_THAT(control->Command({}, {"abort", "", ""}), refused) << folder;
    EXPECT_THAT(control->StartRun({}, {}), refused) << folder;
  }
  EXPECT_EQ(control_.caller.name, "");
}

TEST_F(OperatorTls, Operator_MayNotTakePart) {
  ASSERT_OK_AND_ASSIGN(auto credentials, CredentialsOf("alice"));
  ASSERT_OK_AND_ASSIGN(const auto client,
                       GrpcClient::Create({.coordinator = At(), .credentials = std::move(credentials)}));
  const auto refused = StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("'operator/alice' is not a client's"));
  EXPECT_THAT(client->Poll({.caller = {.session = 1}}), refused);
  EXPECT_THAT(client->Poll({.caller = {.session = 1}, .serves = {Serves::Kind::kNames, {}}}), refused);
  EXPECT_THAT(client->Fetch({}, {BlobId::Form::kModel, Sha256Of("m")}, 0), refused);
  EXPECT_THAT(client->Submit({}, {.task = "t", .bytes = 1}), refused);
  EXPECT_THAT(client->Fail({}, {.task = "t"}), refused);
}

TEST_F(OperatorTls, RevokedOperator_IsRefusedAtItsNextCall) {
  ASSERT_OK_AND_ASSIGN(const auto control, ControlAs("alice"));
  ASSERT_OK(control->Runs({}));
  ASSERT_OK_AND_ASSIGN(auto authority, Open());
  ASSERT_OK(authority->RevokeName(Name("operator/alice"), RevocationReason::kKeyCompromise));
  ASSERT_OK(WriteFileAtomically(fs_, Path("server/revoked.crl"), authority->revocation_list()));
  EXPECT_THAT(control->Runs({}), StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("revoked")));
}

TEST(ControlWithoutTls, ThisMachine_MaySteerAsLocal) {
  NeverAsked api;
  FakeControl fake;
  ASSERT_OK_AND_ASSIGN(const auto server, GrpcServer::Start(api, {.listen = {.host = "127.0.0.1"},
                                                                  .credentials = InsecureCredentials(false),
                                                                  .limits = {},
                                                                  .control = &fake}));
  ASSERT_OK_AND_ASSIGN(const auto control,
                       ConnectControl({.coordinator = server->address(), .credentials = InsecureCredentials(false)}));
  ASSERT_OK(control->Runs({"root", ""}));
  EXPECT_EQ(fake.caller.name, "local");
}

// The answer of grpc.health.v1.Health/Check, a message of one number: 1 is "serving".
std::string HealthOf(const NetworkAddress& address, const std::string& service) {
  grpc::GenericStub stub(grpc::CreateChannel(address.ToString(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  std::string request;
  if (!service.empty()) request = "\x0a" + std::string(1, static_cast<char>(service.size())) + service;
  const grpc::Slice slice(request);
  const grpc::ByteBuffer message(&slice, 1);
  auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", message, &queue);
  call->StartCall();
  grpc::ByteBuffer reply;
  grpc::Status status;
  call->Finish(&reply, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (!status.ok()) return fmt::format("code {}", static_cast<int>(status.error_code()));
  grpc::Slice answer;
  EXPECT_TRUE(reply.DumpToSingleSlice(&answer).ok());
  return std::string(reinterpret_cast<const char*>(answer.begin()), answer.size());
}

// What grpc.reflection.v1alpha.ServerReflection says when it is asked for all services (field 7, an empty text).
std::string ServicesOf(const NetworkAddress& address) {
  grpc::GenericStub stub(grpc::CreateChannel(address.ToString(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto wait = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  auto call = stub.PrepareCall(&context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  call->StartCall(nullptr);
  EXPECT_TRUE(wait());
  const grpc::Slice slice(std::string("\x3a\x00", 2));
  call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
  EXPECT_TRUE(wait());
  grpc::ByteBuffer reply;
  call->Read(&reply, nullptr);
  if (!wait()) return "no answer";
  grpc::Slice answer;
  EXPECT_TRUE(reply.DumpToSingleSlice(&answer).ok());
  grpc::Status status;
  call->Finish(&status, nullptr);
  wait();
  return std::string(reinterpret_cast<const char*>(answer.begin()), answer.size());
}

TEST(ControlWithoutTls, Reflection_NamesEachService) {
  NeverAsked api;
  FakeControl fake;
  ASSERT_OK_AND_ASSIGN(const auto server, GrpcServer::Start(api, {.listen = {.host = "127.0.0.1"},
                                                                  .credentials = InsecureCredentials(false),
                                                                  .limits = {},
                                                                  .control = &fake}));
  const std::string services = ServicesOf(server->address());
  for (const char* service : {"rivulet.rpc.Coordinator", "rivulet.rpc.Control", "grpc.health.v1.Health"})
    EXPECT_THAT(services, ::testing::HasSubstr(service));
}

TEST(ControlWithoutTls, Health_IsServedForEachService) {
  NeverAsked api;
  FakeControl fake;
  ASSERT_OK_AND_ASSIGN(const auto server, GrpcServer::Start(api, {.listen = {.host = "127.0.0.1"},
                                                                  .credentials = InsecureCredentials(false),
                                                                  .limits = {},
                                                                  .control = &fake}));
  for (const char* service : {"", "rivulet.rpc.Coordinator", "rivulet.rpc.Control"})
    EXPECT_EQ(HealthOf(server->address(), service), "\x08\x01") << service;
  EXPECT_EQ(HealthOf(server->address(), "another"), "code 5") << "not found";
}

TEST(ControlWithoutTls, WhereNobodyMaySteer_ItSaysSo) {
  NeverAsked api;
  ASSERT_OK_AND_ASSIGN(const auto server, GrpcServer::Start(api, {.listen = {.host = "127.0.0.1"},
                                                                  .credentials = InsecureCredentials(false),
                                                                  .limits = {},
                                                                  .control = nullptr}));
  ASSERT_OK_AND_ASSIGN(const auto control,
                       ConnectControl({.coordinator = server->address(), .credentials = InsecureCredentials(false)}));
  EXPECT_THAT(control->Runs({}), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("does not know this call")));
}

TEST(ControlWithoutTls, IsLoopbackPeer_IsThisMachineAlone) {
  for (const char* peer :
       {"ipv4:127.0.0.1:9", "ipv4:127.8.0.1:9", "ipv6:[::1]:9", "ipv6:%5B::1%5D:9", "ipv6:%5B::ffff:127.0.0.1%5D:9"})
    EXPECT_TRUE(IsLoopbackPeer(peer)) << peer;
  for (const char* peer : {"ipv4:10.0.0.1:9", "ipv4:12.7.0.1:9", "ipv6:%5B::11%5D:9", "ipv6:%5Bfe80::1%5D:9",
                           "unix:/tmp/127.0.0.1", "", "unknown"})
    EXPECT_FALSE(IsLoopbackPeer(peer)) << peer;
}

}  // namespace
}  // namespace rivulet::testing
