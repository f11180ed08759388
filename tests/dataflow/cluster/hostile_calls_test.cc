// Calls that no task of ours makes: flipped bytes, keys of other steps, and graphs without end. The server answers
// each, and serves on.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <random>
#include <thread>

#include "dataflow/cluster/task_server.h"
#include "proto/distributed/master_service.grpc.pb.h"
#include "proto/distributed/worker_service.grpc.pb.h"
#include "proto/graph/graph.pb.h"
#include "rpc/grpc_options.h"
#include "tests/dataflow/cluster/task_process.h"
#include "tests/dataflow/distributed/tasks.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

using ::testing::HasSubstr;
namespace tfw = ::tensorflow;

class HostileCalls : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string address = fmt::format("127.0.0.1:{}", reserved_.ports()[0]);
    TaskServerOptions options;
    ASSERT_OK_AND_ASSIGN(options.cluster, ClusterSpec::Parse("worker=" + address));
    options.job = "worker";
    options.credentials = InsecureCredentials(false);
    options.worker.max_waiting = kMostWaiting;
    ASSERT_OK_AND_ASSIGN(server_, TaskServer::Start(std::move(options)));
    KeepCallbackThreads();
    channel_ = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
    worker_ = tfw::WorkerService::NewStub(channel_);
    tfw::CreateWorkerSessionRequest create;
    create.set_session_handle("s");
    tfw::CreateWorkerSessionResponse created;
    ASSERT_TRUE(Call(&tfw::WorkerService::Stub::CreateWorkerSession, create, &created).ok());
  }
  template <typename Request, typename Response>
  grpc::Status Call(grpc::Status (tfw::WorkerService::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response, int within_seconds = 60) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(within_seconds));
    return (worker_.get()->*method)(&context, request, response);
  }
  // Bytes as they are, to a method of either service.
  grpc::Status CallBytes(const std::string& method, const std::string& bytes) {
    grpc::ClientContext context;
    // A flipped key may name a tensor that never comes.
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub(channel_);
    Answer<grpc::Status> answer;
    stub.UnaryCall(&context, method, {}, &request, &response, answer.Callback());
    return answer.Get();
  }
  std::string Device() const { return server_->worker().device().name; }
  std::string Key(uint64_t incarnation, const std::string& from, const std::string& to) const {
    return fmt::format("{};{:016x};{};x;0:0", from, incarnation, to);
  }
  static std::string GraphOf(int nodes) {
    proto::GraphDef graph;
    for (int i = 0; i < nodes; ++i) {
      proto::NodeDef& node = *graph.add_node();
      node.set_name(fmt::format("n{}", i));
      node.set_op("NoOp");
    }
    return graph.SerializeAsString();
  }
  void ExpectServes() {
    tfw::GetStatusResponse status;
    ASSERT_TRUE(Call(&tfw::WorkerService::Stub::GetStatus, tfw::GetStatusRequest(), &status).ok());
    ASSERT_EQ(status.device_attributes_size(), 1);
    tfw::RegisterGraphRequest request;
    request.set_session_handle("s");
    request.set_graph_def(GraphOf(2));
    tfw::RegisterGraphResponse graph;
    const grpc::Status registered = Call(&tfw::WorkerService::Stub::RegisterGraph, request, &graph);
    ASSERT_TRUE(registered.ok()) << registered.error_message();
    tfw::RunGraphRequest run;
    run.set_session_handle("s");
    run.set_graph_handle(graph.graph_handle());
    run.set_step_id(77);
    tfw::RunGraphResponse ran;
    const grpc::Status status_of_run = Call(&tfw::WorkerService::Stub::RunGraph, run, &ran);
    ASSERT_TRUE(status_of_run.ok()) << status_of_run.error_message();
    tfw::CleanupGraphRequest clean;
    clean.set_step_id(77);
    tfw::CleanupGraphResponse cleaned;
    ASSERT_TRUE(Call(&tfw::WorkerService::Stub::CleanupGraph, clean, &cleaned).ok());
  }

  static constexpr size_t kMostWaiting = 100;
  const ReservedPorts reserved_{1};
  std::unique_ptr<TaskServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<tfw::WorkerService::Stub> worker_;
};

TEST_F(HostileCalls, FlippedBytes_AreAnsweredAndTheServerServesOn) {
  std::vector<std::pair<std::string, std::string>> calls;
  const auto add = [&](const std::string& method, const google::protobuf::Message& request) {
    calls.emplace_back(method, request.SerializeAsString());
  };
  tfw::RegisterGraphRequest graph;
  graph.set_session_handle("s");
  graph.set_graph_def(GraphOf(3));
  add("/tensorflow.WorkerService/RegisterGraph", graph);
  tfw::RunGraphRequest run;
  run.set_session_handle("s");
  run.set_graph_handle("0000000000000001");
  run.set_step_id(5);
  run.add_recv_key(Key(server_->worker().device().incarnation, Device(), Device()));
  tfw::NamedTensorProto& sent = *run.add_send();
  sent.set_name(run.recv_key(0));
  sent.mutable_tensor()->set_dtype(proto::DT_FLOAT);
  sent.mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(2);
  sent.mutable_tensor()->set_tensor_content(std::string(8, '\1'));
  add("/tensorflow.WorkerService/RunGraph", run);
  tfw::RecvTensorRequest receive;
  receive.set_step_id(5);
  receive.set_rendezvous_key(Key(1, Device(), "/job:worker/replica:0/task:1/device:CPU:0"));
  add("/tensorflow.WorkerService/RecvTensor", receive);
  tfw::CreateSessionRequest session;
  session.set_graph_def(GraphOf(3));
  session.mutable_config()->set_isolate_session_state(true);
  session.mutable_config()->add_device_filters("/job:worker");
  add("/tensorflow.MasterService/CreateSession", session);
  tfw::RunStepRequest step;
  step.set_session_handle("0011223344556677");
  *step.add_feed() = sent;
  step.add_fetch("n0:0");
  add("/tensorflow.MasterService/RunStep", step);
  std::mt19937 random(48);
  for (const auto& [method, bytes] : calls) {
    for (int round = 0; round < 200; ++round) {
      std::string flipped = bytes;
      for (uint32_t flips = 1 + random() % 3; flips > 0; --flips)
        flipped[random() % flipped.size()] ^= static_cast<char>(1 << random() % 8);
      if (random() % 8 == 0) flipped.resize(random() % flipped.size());
      (void)CallBytes(method, flipped);  // whatever it answers
    }
  }
  ExpectServes();
}

TEST_F(HostileCalls, KeysOfOthers_AreRefusedByASentence) {
  const uint64_t own = server_->worker().device().incarnation;
  const std::string other = "/job:worker/replica:0/task:1/device:CPU:0";
  for (const auto& [key, code, why] : std::vector<std::tuple<std::string, grpc::StatusCode, std::string>>{
           {Key(own + 1, Device(), other), grpc::StatusCode::ABORTED, "an earlier process"},
           {Key(own, other, Device()), grpc::StatusCode::INVALID_ARGUMENT, "no device of"},
           {Key(own, Device(), Device()), grpc::StatusCode::INVALID_ARGUMENT, "stays within"},
           {"x", grpc::StatusCode::INVALID_ARGUMENT, "x"}}) {
    tfw::RecvTensorRequest request;
    request.set_step_id(9);
    request.set_rendezvous_key(key);
    tfw::RecvTensorResponse response;
    const grpc::Status status = Call(&tfw::WorkerService::Stub::RecvTensor, request, &response);
    EXPECT_EQ(status.error_code(), code) << key << ": " << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(why)) << key;
  }
  EXPECT_EQ(server_->worker().steps(), 0u);
}

// Receives of tensors that nobody sends: so many wait, the others are refused at once, and nothing is left of any.
TEST_F(HostileCalls, FloodOfReceives_IsBoundedAndLeavesNothing) {
  constexpr size_t kFlood = 1000;
  struct Receive {
    grpc::ClientContext context;
    tfw::RecvTensorRequest request;
    tfw::RecvTensorResponse response;
    Answer<grpc::Status> answer;
  };
  std::vector<std::unique_ptr<Receive>> flood;
  for (size_t i = 0; i < kFlood; ++i) {
    Receive& receive = *flood.emplace_back(std::make_unique<Receive>());
    receive.context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    receive.request.set_step_id(static_cast<int64_t>(1000 + i));
    receive.request.set_rendezvous_key(
        Key(server_->worker().device().incarnation, Device(), "/job:worker/replica:0/task:1/device:CPU:0"));
    worker_->async()->RecvTensor(&receive.context, &receive.request, &receive.response, receive.answer.Callback());
  }
  const auto answered = [&] {
    return static_cast<size_t>(
        std::ranges::count_if(flood, [](const auto& receive) { return receive->answer.here(); }));
  };
  while (answered() < kFlood - kMostWaiting) std::this_thread::yield();
  EXPECT_LE(server_->worker().steps(), kMostWaiting);
  ExpectServes();
  size_t refused = 0;
  for (const auto& receive : flood) receive->context.TryCancel();
  for (const auto& receive : flood) {
    const grpc::Status status = receive->answer.Get();
    if (status.error_code() == grpc::StatusCode::CANCELLED) continue;
    ++refused;
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_THAT(status.error_message(), HasSubstr("receives that wait"));
  }
  EXPECT_EQ(refused, kFlood - kMostWaiting);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (server_->worker().steps() > 0 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_EQ(server_->worker().steps(), 0u);
}

TEST_F(HostileCalls, GraphOfAMillionNodes_IsRefused) {
  tfw::RegisterGraphRequest request;
  request.set_session_handle("s");
  request.set_graph_def(GraphOf(1'000'000));
  tfw::RegisterGraphResponse response;
  const grpc::Status status = Call(&tfw::WorkerService::Stub::RegisterGraph, request, &response);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.error_message(), HasSubstr("nodes"));
  ExpectServes();
}

}  // namespace
}  // namespace rivulet::testing
