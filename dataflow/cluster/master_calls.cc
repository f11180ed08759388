#include "dataflow/cluster/master_calls.h"

#include <utility>

#include "dataflow/cluster/wire.h"
#include "dataflow/session/session_options.h"

namespace rivulet {

namespace tfm = tensorflow;

void AnswerCall(Master& master, const tfm::CreateSessionRequest& request, tfm::CreateSessionResponse* response,
                const CancellationToken&, const FinishCall& finish) {
  const auto session = master.CreateSession(request.graph_def(), request.config(), request.rivulet_seed());
  if (session.ok()) {
    response->set_session_handle((*session)->handle());
    response->set_graph_version((*session)->graph_version());
  }
  finish(session.status());
}

void AnswerCall(Master& master, const tfm::ExtendSessionRequest& request, tfm::ExtendSessionResponse* response,
                const CancellationToken&, const FinishCall& finish) {
  int64_t version = 0;
  const Status status =
      master.Extend(request.session_handle(), request.graph_def(), request.current_graph_version(), &version);
  if (status.ok()) response->set_new_graph_version(version);
  finish(status);
}

void AnswerCall(Master& master, const tfm::PartialRunSetupRequest& request, tfm::PartialRunSetupResponse* response,
                const CancellationToken&, const FinishCall& finish) {
  const auto set_up = [&]() -> StatusOr<std::string> {
    RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<MasterSession> session, master.Session(request.session_handle()));
    return session->SetUpPartialRun({request.feed().begin(), request.feed().end()},
                                    {request.fetch().begin(), request.fetch().end()},
                                    {request.target().begin(), request.target().end()});
  };
  const StatusOr<std::string> handle = set_up();
  if (handle.ok()) response->set_partial_run_handle(*handle);
  finish(handle.status());
}

void AnswerCall(Master& master, const tfm::RunStepRequest& request, tfm::RunStepResponse* response,
                const CancellationToken& cancel, const FinishCall& finish) {
  const FinishCall end = FinishInBody(request, response, finish);
  const StatusOr<std::shared_ptr<MasterSession>> session = master.Session(request.session_handle());
  if (!session.ok()) return end(session.status());
  StatusOr<NamedTensors> feeds = TensorsFrom(request.feed());
  if (!feeds.ok()) return end(feeds.status());
  const StatusOr<RunOptions> options = RunOptionsFrom(request.options());
  if (!options.ok()) return end(options.status());
  MasterStep step;
  step.trace = options->trace;
  step.output_partition_graphs = options->output_partition_graphs;
  if (step.trace || step.output_partition_graphs) {
    if (!request.partial_run_handle().empty())
      return end(
          Unimplemented("a partial run over several tasks has no trace and no partition graphs; leave out "
                        "trace_level and output_partition_graphs"));
    step.metadata = std::make_shared<proto::RunMetadata>();
  }
  step.feeds = *std::move(feeds);
  step.fetches.assign(request.fetch().begin(), request.fetch().end());
  step.targets.assign(request.target().begin(), request.target().end());
  step.timeout = options->timeout;
  // The session lives until its last step has ended.
  const auto done = [session = *session, &request, response, metadata = step.metadata,
                     end](StatusOr<std::vector<Tensor>> values) {
    if (!values.ok()) return end(values.status());
    if (metadata != nullptr) response->mutable_metadata()->Swap(metadata.get());
    NamedTensors named;
    for (int i = 0; i < request.fetch_size(); ++i)
      named.emplace_back(request.fetch(i), std::move((*values)[static_cast<size_t>(i)]));
    ToProto(named, response->mutable_tensor());
    end(absl::OkStatus());
  };
  if (request.partial_run_handle().empty()) {
    (*session)->RunStep(std::move(step), cancel, done);
  } else {
    (*session)->RunPartialStep(request.partial_run_handle(), std::move(step), cancel, done);
  }
}

void AnswerCall(Master& master, const tfm::CloseSessionRequest& request, tfm::CloseSessionResponse*,
                const CancellationToken&, const FinishCall& finish) {
  finish(master.CloseSession(request.session_handle()));
}

void AnswerCall(Master& master, const tfm::ListDevicesRequest& request, tfm::ListDevicesResponse* response,
                const CancellationToken&, const FinishCall& finish) {
  const auto devices = master.Devices(request.session_handle());
  if (devices.ok()) {
    for (const TaskDevice& device : *devices)
      ToProto(device, master.IsOwn(device) ? response->add_local_device() : response->add_remote_device());
  }
  finish(devices.status());
}

void AnswerCall(Master& master, const tfm::ResetRequest& request, tfm::ResetResponse*, const CancellationToken&,
                const FinishCall& finish) {
  finish(master.Reset({request.container().begin(), request.container().end()}));
}

}  // namespace rivulet
