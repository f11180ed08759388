// RecvTensor at both of its ends, from a tensor's memory to another one's. To HTTP/2 a call of one answer is a call of
// several that has one: TensorFlow's tasks are answered by one message, and answer by one. Internal to this folder.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "dataflow/cluster/task_channel.h"
#include "dataflow/cluster/unary_call.h"
#include "dataflow/distributed/graph_worker.h"
#include "dataflow/distributed/remote_task.h"
#include "engine/program/cancellation.h"

namespace rivulet {

// Answers a call. gRPC owns the result, and calls its OnDone last. `request` stays until then.
grpc::ServerWriteReactor<grpc::ByteBuffer>* SendTensor(grpc::CallbackServerContext* context, const TaskCallers& callers,
                                                       std::shared_ptr<GraphWorker> worker,
                                                       const grpc::ByteBuffer* request);

// As RemoteTask::RecvTensor, of the task behind `channel`.
void ReceiveTensor(std::shared_ptr<TaskChannel> channel, int64_t step, const std::string& key,
                   const CancellationToken& cancel, RemoteTask::TensorDone done);

}  // namespace rivulet
