// The structs of coordinator_api.h as messages of proto/rpc/coordinator.proto, and back. Internal to this folder.
#pragma once

#include "engine/base/status.h"
#include "federated/transport/coordinator_api.h"
#include "proto/rpc/coordinator.pb.h"
#include "rpc/grpc_options.h"

namespace rivulet {

// Bytes in one message of a stream; and to a peer that takes them as fast as they come. Each message is handed from
// thread to thread at both ends, so a download in small ones takes 1.4 times as long; but what a slow peer has not
// taken yet lies in memory, and there may be a thousand of them. With its head a message is at most kMaxMessageBytes.
inline constexpr size_t kChunkBytes = size_t{256} << 10;
inline constexpr size_t kFastChunkBytes = size_t{960} << 10;
// What has to have gone before a peer is known: twice what a window takes in, however slow it is.
inline constexpr int64_t kKnownBytes = int64_t{2} * kStreamWindowBytes;

// FromMessage of what a stranger may have sent, INVALID_ARGUMENT: a kind out of range, a digest that is not 32 bytes, a
// number out of range.
void ToMessage(const Caller& caller, rpc::CallerProto* message);
Caller FromMessage(const rpc::CallerProto& message);
void ToMessage(const BlobId& blob, rpc::BlobIdProto* message);
StatusOr<BlobId> FromMessage(const rpc::BlobIdProto& message);
void ToMessage(const Task& task, rpc::TaskProto* message);
StatusOr<Task> FromMessage(const rpc::TaskProto& message);
void ToMessage(const PollRequest& request, rpc::PollRequestProto* message);
StatusOr<PollRequest> FromMessage(const rpc::PollRequestProto& message);
void ToMessage(const PollReply& reply, rpc::PollReplyProto* message);
StatusOr<PollReply> FromMessage(const rpc::PollReplyProto& message);
void ToMessage(const Submission& submission, rpc::SubmissionProto* message);
StatusOr<Submission> FromMessage(const rpc::SubmissionProto& message);
void ToMessage(const TaskFailure& failure, rpc::TaskFailureProto* message);
TaskFailure FromMessage(const rpc::TaskFailureProto& message);
void ToMessage(const SubmitResult& result, rpc::SubmitResultProto* message);
StatusOr<SubmitResult> FromMessage(const rpc::SubmitResultProto& message);

}  // namespace rivulet
