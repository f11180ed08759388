// Sessions and tasks against the calls of TensorFlow 2.21, as it made and answered them: the graphs of
// tests/e2e/tensorflow_cluster.py without a TensorFlow.
//
//   recordings/tensorflow.bin   TensorFlow's session, master and workers: our master answers its session, and our
//                               worker its master
//   recordings/rivulet.bin      TensorFlow's session, our master, TensorFlow's worker: our master drives that worker
#include "tests/dataflow/cluster/recorded_calls.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include "dataflow/cluster/task_server.h"
#include "proto/distributed/master_service.grpc.pb.h"
#include "proto/distributed/worker_service.grpc.pb.h"
#include "proto/graph/graph.pb.h"
#include "rpc/grpc_options.h"
#include "tests/dataflow/cluster/task_process.h"
#include "tests/dataflow/distributed/tasks.h"

namespace rivulet::testing {
namespace {

namespace tfr = ::tensorflow;

constexpr char kTask0[] = "/job:worker/replica:0/task:0", kTask1[] = "/job:worker/replica:0/task:1";
constexpr int kCancelledCode = 1;

// A part of the sentence by which a graph is refused, as tests/e2e/tensorflow_cluster.py lists them.
const std::map<std::string, std::string> kRefusedByMaster;
const std::map<std::string, std::string> kRefusedByWorker = {
    {"while_loop", "does not follow from the feeds"},
    {"cond", "which no Switch of one predicate separates"},
    {"cond_of_version_2", "which no Switch of one predicate separates"}};

// A key of `task` names the process that runs now.
std::string OfIncarnation(const std::string& name, std::string_view task, uint64_t incarnation) {
  auto key = RendezvousKey::Parse(name);
  if (!key.ok() || TaskOf(key->send_device) != task) return name;
  key->send_incarnation = incarnation;
  return key->ToString();
}

// With connections of its own: servers at this address come and go.
std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

class RecordedCalls : public ::testing::Test {
 protected:
  void Record(const std::string& name) {
    for (RecordedCall& call : ReadRecordedCalls(name)) {
      if (graphs_.empty() || graphs_.back() != call.graph) graphs_.push_back(call.graph);
      calls_[call.graph].push_back(std::move(call));
    }
    ASSERT_GE(graphs_.size(), 40u);
    KeepCallbackThreads();
  }
  std::string Address(int task) const {
    return fmt::format("127.0.0.1:{}", reserved_->ports()[static_cast<size_t>(task)]);
  }
  std::unique_ptr<TaskServer> Serve(int task) const {
    TaskServerOptions options;
    auto cluster = ClusterSpec::Parse(fmt::format("worker={},{}", Address(0), Address(1)));
    EXPECT_OK(cluster);
    options.cluster = *std::move(cluster);
    options.job = "worker";
    options.task = task;
    options.credentials = InsecureCredentials(false);
    options.heartbeat = options.control_timeout = std::chrono::minutes(5);  // a busy machine is no task that is gone
    auto server = TaskServer::Start(std::move(options));
    EXPECT_OK(server);
    return *std::move(server);
  }
  // Counts a graph: "" is equal. A listed one must be refused by its sentence.
  void Count(const std::string& graph, const std::string& difference,
             const std::map<std::string, std::string>& refused) {
    const auto listed = refused.find(graph);
    if (listed == refused.end()) {
      EXPECT_EQ(difference, "") << graph;
    } else {
      EXPECT_THAT(difference, ::testing::HasSubstr(listed->second)) << graph;
    }
    equal_ += difference.empty() ? 1 : 0;
  }

  std::unique_ptr<const ReservedPorts> reserved_ = std::make_unique<const ReservedPorts>(2);
  std::vector<std::string> graphs_;  // in their order
  std::map<std::string, std::vector<RecordedCall>> calls_;
  int equal_ = 0;
};

// ---- our master and TensorFlow's session

// Repeats the calls of a session with the handles that it is given now.
class SessionReplay {
 public:
  explicit SessionReplay(const std::string& address) : stub_(tfr::MasterService::NewStub(ChannelTo(address))) {}

  // The first difference, or "".
  std::string Run(const std::vector<RecordedCall>& calls) {
    std::string difference;
    for (const RecordedCall& call : calls) {
      if (call.callee != "master") continue;
      // A session that differs is closed nevertheless.
      if (!difference.empty() && call.method != "CloseSession") continue;
      const std::string found = Repeat(call);
      if (difference.empty() && !found.empty()) difference = fmt::format("{}: {}", call.method, found);
    }
    return difference;
  }

 private:
  template <typename Request, typename Response>
  std::string Call(
      grpc::Status (tfr::MasterService::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
      const RecordedCall& call,
      const std::function<std::string(const Request&, const Response&, const Response& expected)>& compare) {
    auto request = Parsed<Request>(call.request);
    if constexpr (requires { request.session_handle(); })
      if (const auto handle = handles_.find(request.session_handle()); handle != handles_.end())
        request.set_session_handle(handle->second);
    if constexpr (requires { request.partial_run_handle(); })
      if (const auto handle = handles_.find(request.partial_run_handle()); handle != handles_.end())
        request.set_partial_run_handle(handle->second);
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    Response response;
    const grpc::Status status = (stub_.get()->*method)(&context, request, &response);
    int code = status.error_code();
    std::string said = status.error_message();
    int expected_code = call.code;
    const auto expected = Parsed<Response>(call.response);
    if constexpr (requires { response.status_code(); }) {
      if (status.ok()) {
        code = response.status_code();
        said = response.status_error_message();
      }
      if (call.code == 0) expected_code = expected.status_code();
    }
    // A client that gives up is recorded as cancelled; the server's time is up at the same moment.
    const bool same = expected_code == kCancelledCode ? code != 0 : code == expected_code;
    if (!same) return fmt::format("code {} and not {}: {}", code, expected_code, said);
    return code == 0 ? compare(request, response, expected) : "";
  }

  std::string Repeat(const RecordedCall& call) {
    using Stub = tfr::MasterService::Stub;
    if (call.method == "CreateSession")
      return Call<tfr::CreateSessionRequest, tfr::CreateSessionResponse>(
          &Stub::CreateSession, call, [&](const auto&, const auto& got, const auto& expected) {
            handles_[expected.session_handle()] = got.session_handle();
            return got.graph_version() == expected.graph_version() ? "" : "another graph version";
          });
    if (call.method == "ExtendSession")
      return Call<tfr::ExtendSessionRequest, tfr::ExtendSessionResponse>(
          &Stub::ExtendSession, call, [&](const auto&, const auto& got, const auto& expected) {
            return got.new_graph_version() == expected.new_graph_version() ? "" : "another graph version";
          });
    if (call.method == "PartialRunSetup")
      return Call<tfr::PartialRunSetupRequest, tfr::PartialRunSetupResponse>(
          &Stub::PartialRunSetup, call, [&](const auto&, const auto& got, const auto& expected) {
            handles_[expected.partial_run_handle()] = got.partial_run_handle();
            return "";
          });
    if (call.method == "RunStep")
      return Call<tfr::RunStepRequest, tfr::RunStepResponse>(&Stub::RunStep, call,
                                                             [&](const auto&, const auto& got, const auto& expected) {
                                                               return Differences(got.tensor(), expected.tensor());
                                                             });
    if (call.method == "CloseSession")
      return Call<tfr::CloseSessionRequest, tfr::CloseSessionResponse>(
          &Stub::CloseSession, call, [](const auto&, const auto&, const auto&) { return ""; });
    return "a call that is not known here";
  }

  const std::unique_ptr<tfr::MasterService::Stub> stub_;
  std::map<std::string, std::string> handles_;
};

TEST_F(RecordedCalls, OurMasterAnswersTensorFlowsSession) {
  Record("tensorflow.bin");
  const auto first = Serve(0), second = Serve(1);
  for (const std::string& graph : graphs_) Count(graph, SessionReplay(Address(0)).Run(calls_[graph]), kRefusedByMaster);
  EXPECT_EQ(equal_, 42);
}

// ---- our worker and TensorFlow's master

// Task 0 as far as task 1 needs it: it gives the tensors that TensorFlow's task 0 gave.
class RecordedSender final : public tfr::WorkerService::CallbackService {
 public:
  explicit RecordedSender(const std::string& address) {
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~RecordedSender() override { server_->Shutdown(std::chrono::system_clock::now()); }
  void Give(const std::vector<RecordedCall>& calls) {
    const std::lock_guard<std::mutex> lock(mutex_);
    answers_.clear();
    for (const RecordedCall& call : calls) {
      if (call.callee != "0" || call.method != "RecvTensor") continue;
      const auto request = Parsed<tfr::RecvTensorRequest>(call.request);
      answers_[{request.step_id(), request.rendezvous_key()}] = call;
    }
  }
  grpc::ServerUnaryReactor* RecvTensor(grpc::CallbackServerContext* context, const tfr::RecvTensorRequest* request,
                                       tfr::RecvTensorResponse* response) override {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = answers_.find({request->step_id(), request->rendezvous_key()});
    if (found == answers_.end()) {
      reactor->Finish({grpc::StatusCode::NOT_FOUND, "TensorFlow's worker did not fetch " + request->rendezvous_key()});
    } else if (found->second.code != 0) {
      reactor->Finish({static_cast<grpc::StatusCode>(found->second.code), found->second.error});
    } else {
      response->ParseFromString(found->second.response);
      reactor->Finish(grpc::Status::OK);
    }
    return reactor;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int64_t, std::string>, RecordedCall> answers_;
  std::unique_ptr<grpc::Server> server_;
};

// Repeats the calls of a master to task 1. Those of one step are under way together, as they were.
class WorkerReplay {
 public:
  WorkerReplay(const std::string& address, uint64_t incarnation)
      : stub_(tfr::WorkerService::NewStub(ChannelTo(address))), incarnation_(incarnation) {}

  std::string Run(const std::vector<RecordedCall>& calls) {
    std::string difference;
    const auto differs = [&](const std::string& found) {
      if (difference.empty()) difference = found;
    };
    for (const RecordedCall& call : calls) {
      if (call.callee != "1") continue;
      // What differed is still cleaned up.
      if (!difference.empty() && call.method != "CleanupGraph" && call.method != "DeleteWorkerSession") continue;
      if (call.method == "RunGraph") {
        StartRun(call);
      } else if (call.method == "RecvTensor") {
        StartReceive(call);
      } else {
        for (const std::string& found : EndStep(!difference.empty())) differs(found);
        differs(Control(call));
      }
    }
    for (const std::string& found : EndStep(true)) differs(found);
    return difference;
  }

 private:
  template <typename Request, typename Response>
  struct Pending {
    grpc::ClientContext context;
    Request request;
    Response response;
    Answer<grpc::Status> answer;
    RecordedCall recorded;
  };
  using PendingRun = Pending<tfr::RunGraphRequest, tfr::RunGraphResponse>;
  using PendingReceive = Pending<tfr::RecvTensorRequest, tfr::RecvTensorResponse>;

  std::string Localised(const std::string& key) const { return OfIncarnation(key, kTask1, incarnation_); }

  void StartRun(const RecordedCall& call) {
    PendingRun& run = *runs_.emplace_back(std::make_unique<PendingRun>());
    run.recorded = call;
    run.request = Parsed<tfr::RunGraphRequest>(call.request);
    // Our worker refuses some graphs when they are registered, and TensorFlow's when they run: their client is told the
    // same.
    if (const auto refused = refused_.find(run.request.graph_handle()); refused != refused_.end())
      return run.answer.Callback()(refused->second);
    run.request.set_graph_handle(graphs_[run.request.graph_handle()]);
    for (std::string& key : *run.request.mutable_recv_key()) key = Localised(key);
    for (tfr::NamedTensorProto& sent : *run.request.mutable_send()) sent.set_name(Localised(sent.name()));
    stub_->async()->RunGraph(&run.context, &run.request, &run.response, run.answer.Callback());
  }
  void StartReceive(const RecordedCall& call) {
    PendingReceive& receive = *receives_.emplace_back(std::make_unique<PendingReceive>());
    receive.recorded = call;
    receive.request = Parsed<tfr::RecvTensorRequest>(call.request);
    receive.request.set_rendezvous_key(Localised(receive.request.rendezvous_key()));
    stub_->async()->RecvTensor(&receive.context, &receive.request, &receive.response, receive.answer.Callback());
  }

  // Waits for the calls of the step. Those that TensorFlow's master gave up are given up, or all of them.
  std::vector<std::string> EndStep(bool give_up) {
    std::vector<std::string> found;
    bool failed = give_up;
    for (const auto& run : runs_) {
      const auto expected = Parsed<tfr::RunGraphResponse>(run->recorded.response);
      const int expected_code = run->recorded.code != 0 ? run->recorded.code : expected.status_code();
      if (give_up || expected_code == kCancelledCode) run->context.TryCancel();
      const grpc::Status status = run->answer.Get();
      const int code = status.ok() ? run->response.status_code() : status.error_code();
      failed = failed || expected_code != 0 || code != 0;
      if (give_up) continue;
      if (expected_code == kCancelledCode ? code == 0 : code != expected_code) {
        found.push_back(fmt::format("RunGraph: code {} and not {}: {}", code, expected_code,
                                    status.ok() ? run->response.status_error_message() : status.error_message()));
      } else if (code == 0) {
        const std::string difference = Differences(run->response.recv(), expected.recv());
        if (!difference.empty()) found.push_back("RunGraph: " + difference);
      }
    }
    for (const auto& receive : receives_) {
      if (failed) receive->context.TryCancel();  // of a step that failed some came and some did not
      const grpc::Status status = receive->answer.Get();
      if (failed) continue;
      if (!status.ok()) {
        found.push_back(fmt::format("RecvTensor of {}: {}", receive->request.rendezvous_key(), status.error_message()));
        continue;
      }
      const auto expected = Parsed<tfr::RecvTensorResponse>(receive->recorded.response);
      const std::string difference = Difference(receive->response.tensor(), expected.tensor());
      if (!difference.empty()) found.push_back("RecvTensor: " + difference);
    }
    runs_.clear();
    receives_.clear();
    return found;
  }

  template <typename Request, typename Response>
  std::string Call(grpc::Status (tfr::WorkerService::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                   const Request& request, Response* response) {
    grpc::ClientContext context;
    const grpc::Status status = (stub_.get()->*method)(&context, request, response);
    return status.ok() ? "" : fmt::format("code {}: {}", static_cast<int>(status.error_code()), status.error_message());
  }
  std::string Control(const RecordedCall& call) {
    using Stub = tfr::WorkerService::Stub;
    if (call.method == "GetStatus") {
      tfr::GetStatusResponse response;
      return Call(&Stub::GetStatus, tfr::GetStatusRequest(), &response);
    }
    if (call.method == "CreateWorkerSession") {
      tfr::CreateWorkerSessionResponse response;
      return Call(&Stub::CreateWorkerSession, Parsed<tfr::CreateWorkerSessionRequest>(call.request), &response);
    }
    if (call.method == "DeleteWorkerSession") {
      tfr::DeleteWorkerSessionResponse response;
      return Call(&Stub::DeleteWorkerSession, Parsed<tfr::DeleteWorkerSessionRequest>(call.request), &response);
    }
    if (call.method == "CleanupGraph") {
      tfr::CleanupGraphResponse response;
      return Call(&Stub::CleanupGraph, Parsed<tfr::CleanupGraphRequest>(call.request), &response);
    }
    if (call.method == "RegisterGraph") {
      auto request = Parsed<tfr::RegisterGraphRequest>(call.request);
      auto graph = Parsed<proto::GraphDef>(request.graph_def());
      for (proto::NodeDef& node : *graph.mutable_node()) {
        auto& attrs = *node.mutable_attr();
        if (attrs.contains("send_device") && TaskOf(attrs.at("send_device").s()) == kTask1)
          attrs.at("send_device_incarnation").set_i(static_cast<int64_t>(incarnation_));
      }
      request.set_graph_def(graph.SerializeAsString());
      grpc::ClientContext context;
      tfr::RegisterGraphResponse response;
      const grpc::Status status = stub_->RegisterGraph(&context, request, &response);
      const std::string handle = Parsed<tfr::RegisterGraphResponse>(call.response).graph_handle();
      if (!status.ok()) refused_[handle] = status;
      graphs_[handle] = response.graph_handle();
      return "";
    }
    return call.method + ": a call that is not known here";
  }

  const std::unique_ptr<tfr::WorkerService::Stub> stub_;
  const uint64_t incarnation_;
  std::map<std::string, std::string> graphs_;  // handles
  std::map<std::string, grpc::Status> refused_;
  std::vector<std::unique_ptr<PendingRun>> runs_;
  std::vector<std::unique_ptr<PendingReceive>> receives_;
};

TEST_F(RecordedCalls, OurWorkerAnswersTensorFlowsMaster) {
  Record("tensorflow.bin");
  RecordedSender first(Address(0));
  const auto second = Serve(1);
  for (const std::string& graph : graphs_) {
    first.Give(calls_[graph]);
    Count(graph, WorkerReplay(Address(1), second->worker().device().incarnation).Run(calls_[graph]), kRefusedByWorker);
  }
  EXPECT_EQ(equal_, 39);
  // A receive that was given up may come after its step was cleaned up. It goes when its cancellation comes.
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (second->worker().steps() > 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(second->worker().steps(), 0u);
  EXPECT_EQ(second->worker().sessions(), 0u);
  EXPECT_EQ(second->worker().parked_bytes(), 0u);
}

// ---- our master and TensorFlow's worker

// Answers as TensorFlow's task 1 did, and fetches what it fetched.
class RecordedWorker final : public tfr::WorkerService::CallbackService {
 public:
  RecordedWorker(const std::string& address, const std::string& master_address)
      : master_(tfr::WorkerService::NewStub(ChannelTo(master_address))) {
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~RecordedWorker() override {
    server_->Shutdown(std::chrono::system_clock::now());
    for (std::thread& running : running_) running.join();
  }

  // `incarnation`: of the process that task 0 is now.
  void Begin(const std::vector<RecordedCall>& calls, uint64_t incarnation) {
    const std::lock_guard<std::mutex> lock(mutex_);
    incarnation_ = incarnation;
    for (const RecordedCall& call : calls) {
      if (call.callee == "1") {
        std::string name = call.method;
        if (name == "RecvTensor") name = TensorNameOf(Parsed<tfr::RecvTensorRequest>(call.request).rendezvous_key());
        left_[name].push_back(call);
      } else if (call.callee == "0") {
        fetched_[Parsed<tfr::RecvTensorRequest>(call.request).step_id()].push_back(call);
      }
    }
  }
  // What differed, and calls that were not made.
  std::string End() {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::string found = std::exchange(difference_, "");
    if (found.empty() && !left_["RegisterGraph"].empty()) found = "a RegisterGraph less";
    // A step that fails at task 0 may end before it is sent here.
    for (const RecordedCall& run : left_["RunGraph"])
      if (found.empty() && run.code == 0 && Parsed<tfr::RunGraphResponse>(run.response).status_code() == 0)
        found = "a RunGraph less";
    return found;
  }

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context, const tfr::GetStatusRequest*,
                                      tfr::GetStatusResponse* response) override {
    return Recorded(context, "GetStatus", response);
  }
  grpc::ServerUnaryReactor* CreateWorkerSession(grpc::CallbackServerContext* context,
                                                const tfr::CreateWorkerSessionRequest*,
                                                tfr::CreateWorkerSessionResponse* response) override {
    return Recorded(context, "CreateWorkerSession", response);
  }
  grpc::ServerUnaryReactor* DeleteWorkerSession(grpc::CallbackServerContext* context,
                                                const tfr::DeleteWorkerSessionRequest*,
                                                tfr::DeleteWorkerSessionResponse*) override {
    return Finished(context);
  }
  grpc::ServerUnaryReactor* DeregisterGraph(grpc::CallbackServerContext* context, const tfr::DeregisterGraphRequest*,
                                            tfr::DeregisterGraphResponse*) override {
    return Finished(context);
  }
  grpc::ServerUnaryReactor* CleanupGraph(grpc::CallbackServerContext* context, const tfr::CleanupGraphRequest* request,
                                         tfr::CleanupGraphResponse*) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_.insert(request->step_id());
    return Finished(context);
  }
  grpc::ServerUnaryReactor* RegisterGraph(grpc::CallbackServerContext* context,
                                          const tfr::RegisterGraphRequest* request,
                                          tfr::RegisterGraphResponse* response) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto& recorded = left_["RegisterGraph"];
      if (!recorded.empty()) {
        const auto expected = Parsed<tfr::RegisterGraphRequest>(recorded.front().request);
        const std::string found = GraphDifference(request->graph_def(), expected.graph_def());
        if (difference_.empty() && !found.empty()) difference_ = "RegisterGraph: " + found;
      }
    }
    return Recorded(context, "RegisterGraph", response);
  }
  grpc::ServerUnaryReactor* RecvTensor(grpc::CallbackServerContext* context, const tfr::RecvTensorRequest* request,
                                       tfr::RecvTensorResponse* response) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (ended_.contains(request->step_id()))
        return Finished(context, {grpc::StatusCode::ABORTED, "the step is over"});
    }
    return Recorded(context, TensorNameOf(request->rendezvous_key()), response);
  }
  grpc::ServerUnaryReactor* RunGraph(grpc::CallbackServerContext*, const tfr::RunGraphRequest* request,
                                     tfr::RunGraphResponse* response) override {
    const auto run = std::make_shared<Run>();
    run->response = response;
    auto* const reactor = new RunReactor(run);
    run->reactor = reactor;
    const std::lock_guard<std::mutex> lock(mutex_);
    // A call that its master gave up may come late.
    if (ended_.contains(request->step_id())) {
      run->Finish({grpc::StatusCode::ABORTED, "the step is over"});
      return reactor;
    }
    std::deque<RecordedCall>& runs = left_["RunGraph"];
    if (runs.empty()) {
      if (difference_.empty()) difference_ = "a RunGraph more";
      run->Finish({grpc::StatusCode::INTERNAL, "a RunGraph more"});
      return reactor;
    }
    const RecordedCall recorded = std::move(runs.front());
    runs.pop_front();
    const auto expected = Parsed<tfr::RunGraphRequest>(recorded.request);
    std::string found = Differences(request->send(), expected.send());
    if (found.empty() && request->recv_key_size() != expected.recv_key_size()) found = "another number of fetches";
    if (difference_.empty() && !found.empty()) difference_ = "RunGraph: " + found;
    if (recorded.code == kCancelledCode) return reactor;  // as long as the master waits
    running_.emplace_back([this, run, recorded, step = request->step_id(), fetches = fetched_[expected.step_id()]] {
      grpc::Status status(static_cast<grpc::StatusCode>(recorded.code), recorded.error);
      // As TensorFlow's worker does, a step fails by a tensor that does not come.
      for (const RecordedCall& fetch : fetches)
        if (const grpc::Status fetched = Fetch(*run, fetch, step); status.ok() && !fetched.ok()) status = fetched;
      run->Finish(status, recorded.response);
    });
    return reactor;
  }

 private:
  class RunReactor;
  // A RunGraph under way. The end of its thread and the master's cancellation meet here, in either order.
  struct Run {
    std::mutex mutex;
    RunReactor* reactor = nullptr;  // none: the call has ended, and gRPC may have freed reactor and response
    tfr::RunGraphResponse* response = nullptr;
    grpc::ClientContext* fetching = nullptr;

    void Finish(const grpc::Status& status, const std::string& answer = "") {
      RunReactor* ended = nullptr;
      {
        const std::lock_guard<std::mutex> lock(mutex);
        std::swap(ended, reactor);
        if (ended != nullptr && status.ok()) response->ParseFromString(answer);
        if (fetching != nullptr) fetching->TryCancel();
      }
      if (ended != nullptr) ended->Finish(status);
    }
    // False: the call has ended, and nothing is to be fetched for it.
    bool Fetches(grpc::ClientContext* context) {
      const std::lock_guard<std::mutex> lock(mutex);
      fetching = context;
      return reactor != nullptr;
    }
  };
  class RunReactor final : public grpc::ServerUnaryReactor {
   public:
    explicit RunReactor(std::shared_ptr<Run> run) : run_(std::move(run)) {}

   private:
    void OnCancel() override {
      const std::shared_ptr<Run> run = run_;  // outlives this reactor
      run->Finish(grpc::Status::CANCELLED);
    }
    void OnDone() override { delete this; }
    const std::shared_ptr<Run> run_;
  };

  static grpc::ServerUnaryReactor* Finished(grpc::CallbackServerContext* context,
                                            const grpc::Status& status = grpc::Status::OK) {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(status);
    return reactor;
  }
  template <typename Response>
  grpc::ServerUnaryReactor* Recorded(grpc::CallbackServerContext* context, const std::string& name,
                                     Response* response) {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    const std::lock_guard<std::mutex> lock(mutex_);
    std::deque<RecordedCall>& calls = left_[name];
    if (calls.empty()) {
      if (difference_.empty()) difference_ = fmt::format("a call more: {}", name);
      reactor->Finish({grpc::StatusCode::INTERNAL, "a call more"});
      return reactor;
    }
    response->ParseFromString(calls.front().response);
    reactor->Finish({static_cast<grpc::StatusCode>(calls.front().code), calls.front().error});
    if (name != "GetStatus") calls.pop_front();  // a master asks as often as it likes
    return reactor;
  }
  // A tensor of task 0, which TensorFlow's worker fetched in the recorded step.
  grpc::Status Fetch(Run& run, const RecordedCall& recorded, int64_t step) {
    auto request = Parsed<tfr::RecvTensorRequest>(recorded.request);
    request.set_step_id(step);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      request.set_rendezvous_key(OfIncarnation(request.rendezvous_key(), kTask0, incarnation_));
    }
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    if (!run.Fetches(&context)) return grpc::Status::CANCELLED;
    tfr::RecvTensorResponse response;
    const grpc::Status status = master_->RecvTensor(&context, request, &response);
    run.Fetches(nullptr);
    if (!status.ok() || recorded.code != 0) return status;
    const std::string found =
        Difference(response.tensor(), Parsed<tfr::RecvTensorResponse>(recorded.response).tensor());
    const std::lock_guard<std::mutex> lock(mutex_);
    if (difference_.empty() && !found.empty())
      difference_ = fmt::format("RecvTensor of {}: {}", request.rendezvous_key(), found);
    return status;
  }
  // Nodes by name and op: what TensorFlow's worker was shown to run.
  static std::string GraphDifference(const std::string& got, const std::string& expected) {
    const auto nodes = [](const std::string& bytes) {
      std::set<std::string> named;
      const auto graph = Parsed<proto::GraphDef>(bytes);
      for (const proto::NodeDef& node : graph.node()) named.insert(fmt::format("{} '{}'", node.op(), node.name()));
      return named;
    };
    const std::set<std::string> there = nodes(got);
    for (const std::string& node : nodes(expected))
      if (!there.contains(node)) return fmt::format("the graph lacks {}", node);
    return "";
  }

  const std::unique_ptr<tfr::WorkerService::Stub> master_;
  std::mutex mutex_;
  std::map<std::string, std::deque<RecordedCall>> left_;  // by method, RecvTensor by the tensor
  std::map<int64_t, std::vector<RecordedCall>> fetched_;  // by recorded step
  std::string difference_;
  std::set<int64_t> ended_;  // steps that were cleaned up
  uint64_t incarnation_ = 0;
  std::vector<std::thread> running_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(RecordedCalls, OurMasterDrivesTensorFlowsWorker) {
  Record("rivulet.bin");
  for (const std::string& graph : graphs_) {
    // Tasks of its own: a call that was given up in one graph may come when the next one runs. At ports of its own too,
    // as gRPC closes those of a server some time after its end.
    reserved_ = std::make_unique<const ReservedPorts>(2);
    RecordedWorker second(Address(1), Address(0));
    const auto first = Serve(0);
    second.Begin(calls_[graph], first->worker().device().incarnation);
    const std::string found = SessionReplay(Address(0)).Run(calls_[graph]);
    const std::string said = second.End();
    Count(graph, found.empty() ? said : found + (said.empty() ? "" : "; " + said), {});
  }
  EXPECT_EQ(equal_, 40);
}

}  // namespace
}  // namespace rivulet::testing
