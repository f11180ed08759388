// Calls of a task as its service answers them, from message to message. No gRPC. Internal to this folder and its tests.
#pragma once

#include "dataflow/cluster/finish_call.h"
#include "dataflow/cluster/tensor_message.h"
#include "dataflow/distributed/graph_worker.h"
#include "engine/program/cancellation.h"
#include "proto/distributed/worker.pb.h"

namespace rivulet {

// `finish` is called once, on any thread, perhaps before the call returns; worker, request and response must stay until
// then. Errors of RemoteTask. What a message holds beyond its budget is INVALID_ARGUMENT.
void AnswerCall(GraphWorker& worker, const tensorflow::GetStatusRequest& request,
                tensorflow::GetStatusResponse* response, const CancellationToken& cancel, const FinishCall& finish);
void AnswerCall(GraphWorker& worker, const tensorflow::CreateWorkerSessionRequest& request,
                tensorflow::CreateWorkerSessionResponse* response, const CancellationToken& cancel,
                const FinishCall& finish);
void AnswerCall(GraphWorker& worker, const tensorflow::DeleteWorkerSessionRequest& request,
                tensorflow::DeleteWorkerSessionResponse* response, const CancellationToken& cancel,
                const FinishCall& finish);
void AnswerCall(GraphWorker& worker, const tensorflow::RegisterGraphRequest& request,
                tensorflow::RegisterGraphResponse* response, const CancellationToken& cancel, const FinishCall& finish);
void AnswerCall(GraphWorker& worker, const tensorflow::DeregisterGraphRequest& request,
                tensorflow::DeregisterGraphResponse* response, const CancellationToken& cancel,
                const FinishCall& finish);
void AnswerCall(GraphWorker& worker, const tensorflow::RunGraphRequest& request, tensorflow::RunGraphResponse* response,
                const CancellationToken& cancel, const FinishCall& finish);
void AnswerCall(GraphWorker& worker, const tensorflow::CleanupGraphRequest& request,
                tensorflow::CleanupGraphResponse* response, const CancellationToken& cancel, const FinishCall& finish);
void AnswerCall(GraphWorker& worker, const tensorflow::CleanupAllRequest& request,
                tensorflow::CleanupAllResponse* response, const CancellationToken& cancel, const FinishCall& finish);
void AnswerCall(GraphWorker& worker, const tensorflow::RecvTensorRequest& request, TensorMessage* response,
                const CancellationToken& cancel, const FinishCall& finish);
// Answers of RecvTensor are not kept for a second asking, so there is nothing to mark.
void AnswerCall(GraphWorker& worker, const tensorflow::MarkRecvFinishedRequest& request,
                tensorflow::MarkRecvFinishedResponse* response, const CancellationToken& cancel,
                const FinishCall& finish);

}  // namespace rivulet
