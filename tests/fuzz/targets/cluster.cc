// What a task of a cluster is asked: each request of a client to its session's master, and of a master or another task
// to a worker.
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <condition_variable>
#include <mutex>
#include <type_traits>

#include "dataflow/cluster/allowed_ops.h"
#include "dataflow/cluster/master_calls.h"
#include "dataflow/cluster/tensor_message.h"
#include "dataflow/cluster/worker_calls.h"
#include "dataflow/placement/rendezvous.h"
#include "engine/base/check.h"
#include "engine/graph/scope.h"
#include "engine/graphdef/graph_def.h"
#include "engine/graphdef/proto_conversion.h"
#include "tests/fuzz/target.h"

namespace rivulet::fuzz {
namespace {

namespace tfc = ::tensorflow;

constexpr char kTaskName[] = "/job:worker/replica:0/task:0";
constexpr char kTaskDevice[] = "/job:worker/replica:0/task:0/device:CPU:0";
constexpr char kPeerDevice[] = "/job:worker/replica:0/task:1/device:CPU:0";
constexpr int64_t kStepId = 7;
// Stand for what each process draws anew.
constexpr char kSessionHandle[] = "SESSION", kPartialHandle[] = "PARTIAL", kIncarnation[] = "INCARNATION-----";

std::string WithIncarnation(std::string text, uint64_t incarnation) {
  if (const size_t at = text.find(kIncarnation); at != std::string::npos)
    text.replace(at, sizeof kIncarnation - 1, fmt::format("{:016x}", incarnation));
  return text;
}
std::string KeyBetween(const char* from, const char* to, const char* name) {
  return fmt::format("{};{};{};{};0:0", from, kIncarnation, to, name);
}

// x [2] → y = -x, and a variable.
Graph SmallGraph() {
  Graph graph;
  const Scope scope(graph);
  scope.Op("Neg", {scope.Placeholder("x", DType::kFloat32, Shape{2})}, {}, "y");
  scope.AddNode("VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", Shape{2}}}, "v");
  RIVULET_CHECK(scope.status().ok(), "the graph is not valid");
  return graph;
}
// A part of a step: sends a constant to its master and another to a peer.
Graph SmallPart(uint64_t incarnation) {
  Graph graph;
  const Scope scope = Scope(graph).WithDevice(kTaskDevice);
  const auto send = [&](const char* to, const char* name) {
    scope.AddNode("_Send", {scope.Const(Tensor::Of<float>({2}, {1, 2}))},
                  {{"tensor_name", name},
                   {"send_device", kTaskDevice},
                   {"send_device_incarnation", static_cast<int64_t>(incarnation)},
                   {"recv_device", to},
                   {"client_terminated", to == std::string_view(kTaskDevice)}},
                  name);
  };
  send(kTaskDevice, "fetched");
  send(kPeerDevice, "edge");
  RIVULET_CHECK(scope.status().ok(), "the part is not valid");
  return graph;
}

// A call's end, waited for.
class CallEnd {
 public:
  FinishCall Callback() {
    return [this](const Status& status) {
      const std::lock_guard<std::mutex> lock(mutex_);
      ok_ = status.ok();
      ended_ = true;
      changed_.notify_all();
    };
  }
  bool Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return ended_; });
    return ok_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false, ok_ = false;
};

template <typename To, typename Request, typename Response>
bool Answers(To& to, const Request& request, Response& response, bool give_up = false) {
  CallEnd end;
  const CancellationToken cancel = CancellationToken::Create();
  AnswerCall(to, request, &response, cancel, end.Callback());
  if (give_up) cancel.Cancel();
  return end.Wait();
}

std::shared_ptr<GraphWorker> SmallWorker() {
  GraphWorkerOptions options;
  options.task = kTaskName;
  options.memory_limit_bytes = size_t{64} << 20;
  options.parked_bytes = size_t{16} << 20;
  options.threads = 1;
  options.allow = CheckAllowedOps;
  auto worker = GraphWorker::Create(std::move(options), nullptr);
  RIVULET_CHECK(worker.ok(), "no worker");
  return *std::move(worker);
}

// ---- a task

// A worker with a session "s" that has a graph.
struct TaskWithGraph {
  TaskWithGraph() : worker(SmallWorker()) {
    tfc::CreateWorkerSessionRequest create;
    create.set_session_handle("s");
    tfc::CreateWorkerSessionResponse created;
    RIVULET_CHECK(Answers(*worker, create, created), "no session");
    tfc::RegisterGraphRequest graph;
    graph.set_session_handle("s");
    graph.set_graph_def(SerializeGraph(SmallPart(worker->device().incarnation)));
    tfc::RegisterGraphResponse registered;
    RIVULET_CHECK(Answers(*worker, graph, registered), "no graph");
  }
  const std::shared_ptr<GraphWorker> worker;
};

tfc::RunGraphRequest RunOfPart() {
  tfc::RunGraphRequest run;
  run.set_session_handle("s");
  run.set_graph_handle("0000000000000001");
  run.set_step_id(kStepId);
  run.add_recv_key(KeyBetween(kTaskDevice, kTaskDevice, "fetched"));
  tfc::NamedTensorProto& fed = *run.add_send();
  fed.set_name(KeyBetween(kTaskDevice, kTaskDevice, "fed"));
  ToProto(Tensor::Of<float>({2}, {3, 4}), fed.mutable_tensor());
  return run;
}

// Keys hold the incarnation of this worker, where they hold one.
void Localise(tfc::RunGraphRequest& run, uint64_t incarnation) {
  for (std::string& key : *run.mutable_recv_key()) key = WithIncarnation(key, incarnation);
  for (tfc::NamedTensorProto& fed : *run.mutable_send()) fed.set_name(WithIncarnation(fed.name(), incarnation));
}

// Whether a call may wait for a tensor that never comes.
bool MayWait(const tfc::RunGraphRequest& run, uint64_t incarnation) {
  const std::string sent = WithIncarnation(KeyBetween(kTaskDevice, kTaskDevice, "fetched"), incarnation);
  return run.recv_key_size() > 1 || (run.recv_key_size() == 1 && run.recv_key(0) != sent);
}
template <typename Request>
bool MayWait(const Request&, uint64_t) {
  return false;
}
template <typename Request>
void Localise(Request&, uint64_t) {}

template <typename Request, typename Response>
bool AskWorker(std::string_view bytes) {
  Request request;
  if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return false;
  const TaskWithGraph task;
  const uint64_t incarnation = task.worker->device().incarnation;
  Localise(request, incarnation);
  Response response;
  return Answers(*task.worker, request, response, MayWait(request, incarnation));
}

// A receive of a step that has run: its tensor is there.
bool AskForTensor(std::string_view bytes) {
  tfc::RecvTensorRequest request;
  if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return false;
  const TaskWithGraph task;
  const uint64_t incarnation = task.worker->device().incarnation;
  tfc::RunGraphRequest run = RunOfPart();
  Localise(run, incarnation);
  tfc::RunGraphResponse ran;
  RIVULET_CHECK(Answers(*task.worker, run, ran), "the part did not run");
  request.set_rendezvous_key(WithIncarnation(request.rendezvous_key(), incarnation));
  const bool there =
      request.step_id() == kStepId &&
      request.rendezvous_key() == WithIncarnation(KeyBetween(kTaskDevice, kPeerDevice, "edge"), incarnation);
  TensorMessage response;
  return Answers(*task.worker, request, response, !there);
}

template <typename Request>
std::function<std::vector<std::string>()> SeedsOf(std::function<void(Request&)> fill) {
  return [fill] {
    Request request;
    fill(request);
    return std::vector<std::string>{request.SerializeAsString()};
  };
}

const Registered create_worker_session{{"cluster_create_worker_session",
                                        AskWorker<tfc::CreateWorkerSessionRequest, tfc::CreateWorkerSessionResponse>,
                                        SeedsOf<tfc::CreateWorkerSessionRequest>([](auto& request) {
                                          request.set_session_handle("t");
                                          request.set_isolate_session_state(true);
                                          request.mutable_server_def()->set_job_name("worker");
                                          request.add_cluster_device_attributes()->set_name(kPeerDevice);
                                        }),
                                        MessageFrom(0)}};
const Registered delete_worker_session{
    {"cluster_delete_worker_session", AskWorker<tfc::DeleteWorkerSessionRequest, tfc::DeleteWorkerSessionResponse>,
     SeedsOf<tfc::DeleteWorkerSessionRequest>([](auto& request) { request.set_session_handle("s"); }), MessageFrom(0)}};
const Registered register_graph{{"cluster_register_graph",
                                 AskWorker<tfc::RegisterGraphRequest, tfc::RegisterGraphResponse>,
                                 SeedsOf<tfc::RegisterGraphRequest>([](auto& request) {
                                   request.set_session_handle("s");
                                   request.set_graph_def(SerializeGraph(SmallPart(1)));
                                   request.set_create_worker_session_called(true);
                                 }),
                                 MessageFrom(0)}};
const Registered deregister_graph{{"cluster_deregister_graph",
                                   AskWorker<tfc::DeregisterGraphRequest, tfc::DeregisterGraphResponse>,
                                   SeedsOf<tfc::DeregisterGraphRequest>([](auto& request) {
                                     request.set_session_handle("s");
                                     request.set_graph_handle("0000000000000001");
                                   }),
                                   MessageFrom(0)}};
const Registered run_graph{{"cluster_run_graph", AskWorker<tfc::RunGraphRequest, tfc::RunGraphResponse>,
                            SeedsOf<tfc::RunGraphRequest>([](auto& request) { request = RunOfPart(); }),
                            MessageFrom(0)}};
const Registered recv_tensor{{"cluster_recv_tensor", AskForTensor, SeedsOf<tfc::RecvTensorRequest>([](auto& request) {
                                request.set_step_id(kStepId);
                                request.set_rendezvous_key(KeyBetween(kTaskDevice, kPeerDevice, "edge"));
                              }),
                              MessageFrom(0)}};
// What another task answers to a receive: one message, or the first of several.
bool ReadAnswer(std::string_view bytes) {
  const auto open = [&] {
    return std::make_unique<google::protobuf::io::ArrayInputStream>(bytes.data(), static_cast<int>(bytes.size()));
  };
  const bool whole = TensorFromMessage(bytes.size(), "key", open).ok();
  tfc::RecvTensorResponse first;
  constexpr uint64_t kMost = 1 << 20;  // what is announced is made, of zeros
  if (!first.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || first.rivulet_values_bytes() > kMost)
    return whole;
  const auto pieces = TensorInPieces(bytes.size(), "key", *open());
  return whole || (pieces.ok() && pieces->has_value());
}
const Registered recv_tensor_answer{
    {"cluster_recv_tensor_answer", ReadAnswer,
     [] {
       tfc::RecvTensorResponse typed, first;
       typed.set_send_start_micros(5);
       typed.mutable_tensor()->set_dtype(proto::DT_FLOAT);
       ToProto(Shape{2}, typed.mutable_tensor()->mutable_tensor_shape());
       typed.mutable_tensor()->add_float_val(1.5f);
       first = typed;
       first.mutable_tensor()->clear_float_val();
       first.set_rivulet_values_bytes(8);
       std::vector<std::string> seeds = {typed.SerializeAsString(), first.SerializeAsString()};
       for (const Tensor& tensor : {Tensor::Of<float>({2}, {1, 2}), Tensor::Scalar(true)}) {
         StatusOr<TensorMessage> message = MessageOf(tensor, /*pieces=*/false);
         RIVULET_CHECK(message.ok(), "no message");
         message->head.append(reinterpret_cast<const char*>(tensor.data()), tensor.bytes());
         seeds.push_back(std::move(message->head));
       }
       return seeds;
     },
     MessageFrom(0)}};
const Registered cleanup_graph{{"cluster_cleanup_graph", AskWorker<tfc::CleanupGraphRequest, tfc::CleanupGraphResponse>,
                                SeedsOf<tfc::CleanupGraphRequest>([](auto& request) { request.set_step_id(kStepId); }),
                                MessageFrom(0)}};
const Registered cleanup_all{{"cluster_cleanup_all", AskWorker<tfc::CleanupAllRequest, tfc::CleanupAllResponse>,
                              SeedsOf<tfc::CleanupAllRequest>([](auto& request) { request.add_container("c"); }),
                              MessageFrom(0)}};

// ---- a session's master

// A master whose one task is in this process, with a session and a partial run.
struct MasterOfOne {
  MasterOfOne() : worker(SmallWorker()), master({worker}, kTaskName, {.allow = CheckAllowedOps}) {
    tfc::CreateSessionRequest create;
    create.set_graph_def(SerializeGraph(SmallGraph()));
    tfc::CreateSessionResponse created;
    RIVULET_CHECK(Answers(master, create, created), "no session");
    session = created.session_handle();
    tfc::PartialRunSetupRequest set_up;
    set_up.set_session_handle(session);
    set_up.add_feed("x:0");
    set_up.add_fetch("y:0");
    tfc::PartialRunSetupResponse made;
    RIVULET_CHECK(Answers(master, set_up, made), "no partial run");
    partial = made.partial_run_handle();
  }
  const std::shared_ptr<GraphWorker> worker;
  Master master;
  std::string session, partial;
};

void NameSession(tfc::CreateSessionRequest&, const MasterOfOne&) {}
void NameSession(tfc::ResetRequest&, const MasterOfOne&) {}
template <typename Request>
void NameSession(Request& request, const MasterOfOne& one) {
  if (request.session_handle() == kSessionHandle) request.set_session_handle(one.session);
  if constexpr (std::is_same_v<Request, tfc::RunStepRequest>)
    if (request.partial_run_handle() == kPartialHandle) request.set_partial_run_handle(one.partial);
}

template <typename Request, typename Response>
bool AskMaster(std::string_view bytes) {
  Request request;
  if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return false;
  MasterOfOne one;
  NameSession(request, one);
  Response response;
  return Answers(one.master, request, response);
}

tfc::RunStepRequest StepOfY() {
  tfc::RunStepRequest step;
  step.set_session_handle(kSessionHandle);
  tfc::NamedTensorProto& x = *step.add_feed();
  x.set_name("x:0");
  ToProto(Tensor::Of<float>({2}, {3, 4}), x.mutable_tensor());
  step.add_fetch("y:0");
  return step;
}

const Registered create_session{{"cluster_create_session",
                                 AskMaster<tfc::CreateSessionRequest, tfc::CreateSessionResponse>,
                                 SeedsOf<tfc::CreateSessionRequest>([](auto& request) {
                                   request.set_graph_def(SerializeGraph(SmallGraph()));
                                   request.mutable_config()->set_isolate_session_state(true);
                                   request.mutable_config()->add_device_filters("/job:worker");
                                   request.set_rivulet_seed(5);
                                 }),
                                 MessageFrom(0)}};
const Registered extend_session{{"cluster_extend_session",
                                 AskMaster<tfc::ExtendSessionRequest, tfc::ExtendSessionResponse>,
                                 SeedsOf<tfc::ExtendSessionRequest>([](auto& request) {
                                   Graph more;
                                   const Scope scope(more);
                                   scope.Const(Tensor::Of<float>({2}, {1, 2}), "more");
                                   request.set_session_handle(kSessionHandle);
                                   request.set_graph_def(SerializeGraph(more));
                                 }),
                                 MessageFrom(0)}};
const Registered partial_run_setup{{"cluster_partial_run_setup",
                                    AskMaster<tfc::PartialRunSetupRequest, tfc::PartialRunSetupResponse>,
                                    SeedsOf<tfc::PartialRunSetupRequest>([](auto& request) {
                                      request.set_session_handle(kSessionHandle);
                                      request.add_feed("x:0");
                                      request.add_fetch("y:0");
                                      request.add_target("y");
                                    }),
                                    MessageFrom(0)}};
const Registered run_step{{"cluster_run_step", AskMaster<tfc::RunStepRequest, tfc::RunStepResponse>,
                           [] {
                             tfc::RunStepRequest whole = StepOfY(), partial = StepOfY();
                             whole.mutable_options()->set_timeout_in_ms(60'000);
                             partial.set_partial_run_handle(kPartialHandle);
                             return std::vector<std::string>{whole.SerializeAsString(), partial.SerializeAsString()};
                           },
                           MessageFrom(0)}};
const Registered close_session{
    {"cluster_close_session", AskMaster<tfc::CloseSessionRequest, tfc::CloseSessionResponse>,
     SeedsOf<tfc::CloseSessionRequest>([](auto& request) { request.set_session_handle(kSessionHandle); }),
     MessageFrom(0)}};
const Registered list_devices{
    {"cluster_list_devices", AskMaster<tfc::ListDevicesRequest, tfc::ListDevicesResponse>,
     SeedsOf<tfc::ListDevicesRequest>([](auto& request) { request.set_session_handle(kSessionHandle); }),
     MessageFrom(0)}};
const Registered reset_containers{{"cluster_reset", AskMaster<tfc::ResetRequest, tfc::ResetResponse>,
                                   SeedsOf<tfc::ResetRequest>([](auto& request) { request.add_container("c"); }),
                                   MessageFrom(0)}};

}  // namespace
}  // namespace rivulet::fuzz
