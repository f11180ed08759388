// Sessions of "grpc://HOST:PORT": calls of a master in another process.
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <map>

#include "dataflow/cluster/task_channel.h"
#include "dataflow/cluster/wire.h"
#include "dataflow/session/remote_session.h"
#include "engine/graphdef/proto_conversion.h"
#include "proto/distributed/master_service.grpc.pb.h"
#include "proto/graph/config.pb.h"

namespace rivulet {
namespace {

namespace tfs = tensorflow;

// The master waits for its tasks no longer than 30 s.
constexpr std::chrono::seconds kMasterControlTime{60};

class GrpcSession final : public RemoteSession {
 public:
  GrpcSession(std::shared_ptr<TaskChannel> channel, const SessionConfig& config)
      : channel_(std::move(channel)), timeout_(config.operation_timeout) {}
  ~GrpcSession() override { Close(); }

  Status Open(std::string_view graph_def, const SessionConfig& config) {
    tfs::CreateSessionRequest request;
    request.set_graph_def(std::string(graph_def));
    request.set_target(config.target);
    request.set_rivulet_seed(config.seed);
    proto::ConfigProto& options = *request.mutable_config();
    options.set_operation_timeout_in_ms(config.operation_timeout.count());
    options.set_isolate_session_state(config.isolate_session_state);
    options.mutable_experimental()->set_optimize_for_static_graph(config.static_graph);
    if (config.placement) {
      for (const std::string& filter : config.placement->device_filters) options.add_device_filters(filter);
      options.set_allow_soft_placement(config.placement->allow_soft_placement);
      proto::GraphOptions& graph = *options.mutable_graph_options();
      graph.set_place_pruned_graph(config.placement->place_pruned_graph);
      graph.set_enable_bfloat16_sendrecv(config.placement->enable_bfloat16_sendrecv);
      graph.set_enable_recv_scheduling(config.placement->enable_recv_scheduling);
    }
    tfs::CreateSessionResponse response;
    RIVULET_RETURN_IF_ERROR(Call(&tfs::MasterService::Stub::CreateSession, request, &response, kMasterControlTime,
                                 /*wait=*/true));
    handle_ = response.session_handle();
    MutexLock lock(mutex_);
    version_ = response.graph_version();
    return absl::OkStatus();
  }

  StatusOr<std::vector<Tensor>> Run(const RunOptions& options, const Session::Feeds& feeds,
                                    const std::vector<std::string>& fetches, const std::vector<std::string>& targets,
                                    proto::RunMetadata* metadata) override {
    if (options.observer != nullptr) return Unimplemented("a run at a target has no observer");
    tfs::RunStepRequest request = StepRequest(feeds, fetches);
    for (const std::string& target : targets) request.add_target(target);
    const auto timeout = options.timeout.count() > 0 ? options.timeout : timeout_;
    request.mutable_options()->set_timeout_in_ms(timeout.count());
    if (metadata != nullptr) {
      if (options.trace) request.mutable_options()->set_trace_level(proto::RunOptions::FULL_TRACE);
      request.mutable_options()->set_output_partition_graphs(options.output_partition_graphs);
    }
    return RunStep(request, fetches, options.cancel, metadata);
  }

  StatusOr<std::string> SetUpPartialRun(const std::vector<std::string>& feeds, const std::vector<std::string>& fetches,
                                        const std::vector<std::string>& targets) override {
    tfs::PartialRunSetupRequest request;
    request.set_session_handle(handle_);
    for (const std::string& feed : feeds) request.add_feed(feed);
    for (const std::string& fetch : fetches) request.add_fetch(fetch);
    for (const std::string& target : targets) request.add_target(target);
    tfs::PartialRunSetupResponse response;
    RIVULET_RETURN_IF_ERROR(Call(&tfs::MasterService::Stub::PartialRunSetup, request, &response, kMasterControlTime));
    return response.partial_run_handle();
  }

  StatusOr<std::vector<Tensor>> RunPartial(const std::string& run, const Session::Feeds& feeds,
                                           const std::vector<std::string>& fetches) override {
    tfs::RunStepRequest request = StepRequest(feeds, fetches);
    request.set_partial_run_handle(run);
    return RunStep(request, fetches, {}, nullptr);
  }

  Status Extend(std::string_view graph_def) override {
    MutexLock lock(mutex_);  // one at a time: each names the version that it extends
    tfs::ExtendSessionRequest request;
    request.set_session_handle(handle_);
    request.set_graph_def(std::string(graph_def));
    request.set_current_graph_version(version_);
    tfs::ExtendSessionResponse response;
    RIVULET_RETURN_IF_ERROR(Call(&tfs::MasterService::Stub::ExtendSession, request, &response, kMasterControlTime));
    version_ = response.new_graph_version();
    return absl::OkStatus();
  }

  Status Reset(std::span<const std::string> containers) override {
    tfs::ResetRequest request;
    for (const std::string& container : containers) request.add_container(container);
    tfs::ResetResponse response;
    return Call(&tfs::MasterService::Stub::Reset, request, &response, kMasterControlTime);
  }

  void Close() override {
    {
      MutexLock lock(mutex_);
      if (closed_ || handle_.empty()) return;
      closed_ = true;
    }
    tfs::CloseSessionRequest request;
    request.set_session_handle(handle_);
    tfs::CloseSessionResponse response;
    // A master that is gone has closed it already.
    (void)Call(&tfs::MasterService::Stub::CloseSession, request, &response, std::chrono::seconds(5));
  }

 private:
  template <typename Request, typename Response>
  using StubMethod = grpc::Status (tfs::MasterService::Stub::*)(grpc::ClientContext*, const Request&, Response*);

  template <typename Request, typename Response>
  Status Call(StubMethod<Request, Response> method, const Request& request, Response* response,
              std::chrono::seconds within, bool wait = false) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + within);
    context.set_wait_for_ready(wait);
    const auto stub = tfs::MasterService::NewStub(channel_->channel());
    return channel_->End((stub.get()->*method)(&context, request, response));
  }

  tfs::RunStepRequest StepRequest(const Session::Feeds& feeds, const std::vector<std::string>& fetches) const {
    tfs::RunStepRequest request;
    request.set_session_handle(handle_);
    ToProto(feeds, request.mutable_feed());
    for (const std::string& fetch : fetches) request.add_fetch(fetch);
    request.set_store_errors_in_response_body(true);
    return request;
  }

  StatusOr<std::vector<Tensor>> RunStep(const tfs::RunStepRequest& request, const std::vector<std::string>& fetches,
                                        const CancellationToken& cancel, proto::RunMetadata* metadata) {
    {
      MutexLock lock(mutex_);
      if (closed_) return FailedPrecondition("the session is closed; create another one to run");
    }
    grpc::ClientContext context;
    const uint64_t callback = cancel.OnCancel([&context] { context.TryCancel(); });
    if (cancel.cancelled()) {
      cancel.Forget(callback);
      return Cancelled("the run was cancelled");
    }
    tfs::RunStepResponse response;
    const auto stub = tfs::MasterService::NewStub(channel_->channel());
    Status status = channel_->End(stub->RunStep(&context, request, &response));
    cancel.Forget(callback);
    if (status.ok()) status = StatusFrom(response.status_code(), response.status_error_message());
    if (metadata != nullptr) metadata->Swap(response.mutable_metadata());
    RIVULET_RETURN_IF_ERROR(status);
    RIVULET_ASSIGN_OR_RETURN(NamedTensors tensors, TensorsFrom(response.tensor()));
    std::map<std::string, Tensor> by_name;
    for (auto& [name, value] : tensors) by_name[name] = std::move(value);
    std::vector<Tensor> results;
    for (const std::string& fetch : fetches) {
      const auto found = by_name.find(fetch);
      if (found == by_name.end()) return Internal("the session's master did not answer the fetch '{}'", fetch);
      results.push_back(found->second);
    }
    return results;
  }

  const std::shared_ptr<TaskChannel> channel_;
  const std::chrono::milliseconds timeout_;
  std::string handle_;
  Mutex mutex_;
  int64_t version_ GUARDED_BY(mutex_) = 0;
  bool closed_ GUARDED_BY(mutex_) = false;
};

StatusOr<std::unique_ptr<RemoteSession>> OpenGrpcSession(std::string_view graph_def, const SessionConfig& config) {
  constexpr std::string_view kScheme = "grpc://";
  RIVULET_ASSIGN_OR_RETURN(NetworkAddress address,
                           ParseAddress(std::string_view(config.target).substr(kScheme.size())));
  auto credentials = config.target_credentials;
  if (credentials == nullptr) credentials = InsecureCredentials(false);
  RIVULET_ASSIGN_OR_RETURN(auto channel,
                           TaskChannel::Create(config.target, std::move(address), std::move(credentials)));
  auto session = std::make_unique<GrpcSession>(std::move(channel), config);
  RIVULET_RETURN_IF_ERROR(session->Open(graph_def, config));
  return session;
}

const RegisterRemoteSessions kGrpcSessions("grpc", OpenGrpcSession);

}  // namespace
}  // namespace rivulet
