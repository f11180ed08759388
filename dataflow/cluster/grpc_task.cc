#include "dataflow/cluster/grpc_task.h"

#include <chrono>

#include "dataflow/cluster/task_channel.h"
#include "dataflow/cluster/tensor_stream.h"
#include "dataflow/cluster/wire.h"
#include "proto/distributed/worker_service.grpc.pb.h"
#include "proto/graph/run_metadata.pb.h"

namespace rivulet {
namespace {

namespace tf = tensorflow;
using Stub = tf::WorkerService::Stub;

// Of a call that a task answers at once.
constexpr std::chrono::seconds kControlTime{30};

// One call: what gRPC writes to, until its callback has run.
template <typename Request, typename Response>
struct TaskCall {
  std::shared_ptr<TaskChannel> task;
  std::unique_ptr<Stub> stub;
  grpc::ClientContext context;
  Request request;
  Response response;
  CancellationToken cancel;
  uint64_t callback = 0;
};

template <typename Request, typename Response>
using Method = void (Stub::async::*)(grpc::ClientContext*, const Request*, Response*,
                                     std::function<void(grpc::Status)>);

class Task final : public RemoteTask {
 public:
  Task(std::string name, std::shared_ptr<TaskChannel> channel) : name_(std::move(name)), channel_(std::move(channel)) {}
  const std::string& name() const override { return name_; }

  // Waits for a task that is not there yet, as sessions are made while a cluster starts.
  void GetStatus(const CancellationToken& cancel, DevicesDone done) override {
    const auto call = NewCall<tf::GetStatusRequest, tf::GetStatusResponse>();
    call->context.set_wait_for_ready(true);
    SetDeadline(*call);
    Start(call, &Stub::async::GetStatus, cancel, [call, done = std::move(done)](const Status& status) {
      if (!status.ok()) return done(status);
      std::vector<TaskDevice> devices;
      for (const tf::DeviceAttributes& device : call->response.device_attributes())
        devices.push_back(DeviceFrom(device));
      done(std::move(devices));
    });
  }
  void CreateWorkerSession(WorkerSessionRequest request, Done done) override {
    const auto call = NewCall<tf::CreateWorkerSessionRequest, tf::CreateWorkerSessionResponse>();
    call->request.set_session_handle(request.session);
    call->request.set_isolate_session_state(request.isolate_session_state);
    StartControl(call, &Stub::async::CreateWorkerSession, std::move(done));
  }
  void DeleteWorkerSession(const std::string& session, Done done) override {
    const auto call = NewCall<tf::DeleteWorkerSessionRequest, tf::DeleteWorkerSessionResponse>();
    call->request.set_session_handle(session);
    StartControl(call, &Stub::async::DeleteWorkerSession, std::move(done));
  }
  void RegisterGraph(GraphRegistration request, HandleDone done) override {
    const auto call = NewCall<tf::RegisterGraphRequest, tf::RegisterGraphResponse>();
    call->request.set_session_handle(request.session);
    call->request.set_create_worker_session_called(true);
    call->request.set_graph_def(std::move(request.graph_def));
    call->request.set_rivulet_seed(request.seed);
    StartControl(call, &Stub::async::RegisterGraph, [call, done = std::move(done)](const Status& status) {
      if (!status.ok()) return done(status);
      done(call->response.graph_handle());
    });
  }
  void DeregisterGraph(const std::string& session, const std::string& graph, Done done) override {
    const auto call = NewCall<tf::DeregisterGraphRequest, tf::DeregisterGraphResponse>();
    call->request.set_session_handle(session);
    call->request.set_create_worker_session_called(true);
    call->request.set_graph_handle(graph);
    StartControl(call, &Stub::async::DeregisterGraph, std::move(done));
  }
  void RunGraph(TaskStep step, const CancellationToken& cancel, TensorsDone done) override {
    const auto call = NewCall<tf::RunGraphRequest, tf::RunGraphResponse>();
    tf::RunGraphRequest& request = call->request;
    request.set_session_handle(step.session);
    request.set_create_worker_session_called(true);
    request.set_graph_handle(step.graph);
    request.set_step_id(step.id);
    ToProto(step.send, request.mutable_send());
    for (const std::string& key : step.recv) request.add_recv_key(key);
    request.set_is_partial(step.partial);
    request.set_is_last_partial_run(step.last);
    request.set_store_errors_in_response_body(true);
    if (step.number) request.set_rivulet_step(*step.number);
    if (step.trace != nullptr) {
      request.mutable_exec_opts()->set_record_timeline(step.trace->step_stats);
      request.mutable_exec_opts()->set_record_partition_graphs(step.trace->partition_graphs);
    }
    Start(call, &Stub::async::RunGraph, cancel, [call, trace = step.trace, done = std::move(done)](Status status) {
      if (status.ok()) status = StatusFrom(call->response.status_code(), call->response.status_error_message());
      if (!status.ok()) return done(status);
      if (trace != nullptr) {
        trace->metadata = std::make_shared<proto::RunMetadata>();
        trace->metadata->mutable_step_stats()->Swap(call->response.mutable_step_stats());
        trace->metadata->mutable_partition_graphs()->Swap(call->response.mutable_partition_graph());
        trace->received_nanos = call->response.rivulet_received_nanos();
        trace->answered_nanos = call->response.rivulet_answered_nanos();
      }
      done(TensorsFrom(call->response.recv()));
    });
  }
  void RecvTensor(int64_t step, const std::string& key, const CancellationToken& cancel, TensorDone done) override {
    ReceiveTensor(channel_, step, key, cancel, std::move(done));
  }
  void CleanupGraph(int64_t step, Done done) override {
    const auto call = NewCall<tf::CleanupGraphRequest, tf::CleanupGraphResponse>();
    call->request.set_step_id(step);
    StartControl(call, &Stub::async::CleanupGraph, std::move(done));
  }
  void CleanupAll(std::vector<std::string> containers, Done done) override {
    const auto call = NewCall<tf::CleanupAllRequest, tf::CleanupAllResponse>();
    for (const std::string& container : containers) call->request.add_container(container);
    StartControl(call, &Stub::async::CleanupAll, std::move(done));
  }

 private:
  template <typename Request, typename Response>
  std::shared_ptr<TaskCall<Request, Response>> NewCall() {
    auto call = std::make_shared<TaskCall<Request, Response>>();
    call->task = channel_;
    call->stub = tf::WorkerService::NewStub(channel_->channel());
    return call;
  }
  template <typename Call>
  static void SetDeadline(Call& call) {
    call.context.set_deadline(std::chrono::system_clock::now() + kControlTime);
  }
  // `cancel` is registered first: a context that is cancelled before its call begins is cancelled when it does.
  template <typename Request, typename Response>
  static void Start(const std::shared_ptr<TaskCall<Request, Response>>& call, Method<Request, Response> method,
                    const CancellationToken& cancel, std::function<void(Status)> done) {
    call->cancel = cancel;
    call->callback = cancel.OnCancel([raw = &call->context] { raw->TryCancel(); });
    if (cancel.cancelled()) {
      cancel.Forget(call->callback);
      return done(Cancelled("the call was cancelled"));
    }
    (call->stub->async()->*method)(&call->context, &call->request, &call->response,
                                   [call, done = std::move(done)](const grpc::Status& status) {
                                     call->cancel.Forget(call->callback);
                                     done(call->task->End(status));
                                   });
  }
  template <typename Request, typename Response>
  static void StartControl(const std::shared_ptr<TaskCall<Request, Response>>& call, Method<Request, Response> method,
                           std::function<void(Status)> done) {
    SetDeadline(*call);
    Start(call, method, {}, std::move(done));
  }

  const std::string name_;
  const std::shared_ptr<TaskChannel> channel_;
};

}  // namespace

StatusOr<std::shared_ptr<RemoteTask>> GrpcTask(const ClusterTask& task,
                                               std::shared_ptr<const TransportCredentials> credentials) {
  RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<TaskChannel> channel,
                           TaskChannel::Create(task.name(), task.address, std::move(credentials)));
  return std::shared_ptr<RemoteTask>(std::make_shared<Task>(task.name(), std::move(channel)));
}

}  // namespace rivulet
