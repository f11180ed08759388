#include "dataflow/cluster/worker_calls.h"

#include <utility>

#include "dataflow/cluster/foreign_graph.h"
#include "dataflow/cluster/wire.h"
#include "engine/graphdef/proto_conversion.h"
#include "proto/graph/run_metadata.pb.h"

namespace rivulet {

namespace tfw = tensorflow;

void AnswerCall(GraphWorker& worker, const tfw::GetStatusRequest&, tfw::GetStatusResponse* response,
                const CancellationToken& cancel, const FinishCall& finish) {
  worker.GetStatus(cancel, [response, finish](const StatusOr<std::vector<TaskDevice>>& devices) {
    if (devices.ok())
      for (const TaskDevice& device : *devices) ToProto(device, response->add_device_attributes());
    finish(devices.status());
  });
}

// A session's own cluster is not taken from it: this process calls the tasks that it was started with, and no others.
void AnswerCall(GraphWorker& worker, const tfw::CreateWorkerSessionRequest& request, tfw::CreateWorkerSessionResponse*,
                const CancellationToken&, const FinishCall& finish) {
  worker.CreateWorkerSession({request.session_handle(), request.isolate_session_state()}, finish);
}

void AnswerCall(GraphWorker& worker, const tfw::DeleteWorkerSessionRequest& request, tfw::DeleteWorkerSessionResponse*,
                const CancellationToken&, const FinishCall& finish) {
  worker.DeleteWorkerSession(request.session_handle(), finish);
}

void AnswerCall(GraphWorker& worker, const tfw::RegisterGraphRequest& request, tfw::RegisterGraphResponse* response,
                const CancellationToken&, const FinishCall& finish) {
  worker.RegisterGraph({request.session_handle(), WithoutForeignNodes(request.graph_def()), request.rivulet_seed()},
                       [response, finish](const StatusOr<std::string>& handle) {
                         if (handle.ok()) response->set_graph_handle(*handle);
                         finish(handle.status());
                       });
}

void AnswerCall(GraphWorker& worker, const tfw::DeregisterGraphRequest& request, tfw::DeregisterGraphResponse*,
                const CancellationToken&, const FinishCall& finish) {
  worker.DeregisterGraph(request.session_handle(), request.graph_handle(), finish);
}

void AnswerCall(GraphWorker& worker, const tfw::RunGraphRequest& request, tfw::RunGraphResponse* response,
                const CancellationToken& cancel, const FinishCall& finish) {
  const FinishCall end = FinishInBody(request, response, finish);
  StatusOr<NamedTensors> send = TensorsFrom(request.send());
  if (!send.ok()) return end(send.status());
  TaskStep step{request.session_handle(), request.graph_handle(), request.step_id(), *std::move(send)};
  step.recv.assign(request.recv_key().begin(), request.recv_key().end());
  if (request.has_rivulet_step()) step.number = request.rivulet_step();
  step.partial = request.is_partial();
  step.last = request.is_last_partial_run();
  const tfw::ExecutorOpts& wanted = request.exec_opts();
  const std::shared_ptr<TaskTrace> trace =
      std::make_shared<TaskTrace>(TaskTrace{wanted.record_timeline(), wanted.record_partition_graphs()});
  if (trace->step_stats || trace->partition_graphs) step.trace = trace;
  worker.RunGraph(std::move(step), cancel, [response, trace, end](const StatusOr<NamedTensors>& tensors) {
    if (tensors.ok()) ToProto(*tensors, response->mutable_recv());
    if (tensors.ok() && trace->metadata != nullptr) {
      response->mutable_step_stats()->Swap(trace->metadata->mutable_step_stats());
      response->mutable_partition_graph()->Swap(trace->metadata->mutable_partition_graphs());
      response->set_rivulet_received_nanos(trace->received_nanos);
      response->set_rivulet_answered_nanos(trace->answered_nanos);
    }
    end(tensors.status());
  });
}

void AnswerCall(GraphWorker& worker, const tfw::CleanupGraphRequest& request, tfw::CleanupGraphResponse*,
                const CancellationToken&, const FinishCall& finish) {
  worker.CleanupGraph(request.step_id(), finish);
}

void AnswerCall(GraphWorker& worker, const tfw::CleanupAllRequest& request, tfw::CleanupAllResponse*,
                const CancellationToken&, const FinishCall& finish) {
  worker.CleanupAll({request.container().begin(), request.container().end()}, finish);
}

void AnswerCall(GraphWorker& worker, const tfw::RecvTensorRequest& request, TensorMessage* response,
                const CancellationToken& cancel, const FinishCall& finish) {
  worker.RecvTensor(request.step_id(), request.rendezvous_key(), cancel,
                    [response, finish, pieces = request.rivulet_pieces()](const StatusOr<Tensor>& value) {
                      if (!value.ok()) return finish(value.status());
                      StatusOr<TensorMessage> message = MessageOf(*value, pieces);
                      if (message.ok()) *response = *std::move(message);
                      finish(message.status());
                    });
}

void AnswerCall(GraphWorker&, const tfw::MarkRecvFinishedRequest&, tfw::MarkRecvFinishedResponse*,
                const CancellationToken&, const FinishCall& finish) {
  finish(absl::OkStatus());
}

}  // namespace rivulet
