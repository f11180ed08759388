// The structs of coordinator_api.h as messages of proto/rpc/coordinator.proto, and back. Internal to this folder.
#pragma once

#include "engine/base/status.h"
#include "federated/transport/coordinator_api.h"
#include "proto/rpc/coordinator.pb.h"
#include "rpc/grpc_options.h"

namespace rivulet {

// Bytes per message of a stream, and per message to a fast peer. Each message passes between threads at both ends, so a
// download in small ones takes 1.4 times as long; but bytes that a slow peer has not received are in memory, for up to
// a thousand peers. With its header a message has at most kMaxMessageBytes.
inline constexpr size_t kChunkBytes = size_t{256} << 10;
inline constexpr size_t kFastChunkBytes = size_t{960} << 10;
// Bytes sent before a peer's speed is known: twice what fits in a window of any peer.
inline constexpr int64_t kKnownBytes = int64_t{2} * kStreamWindowBytes;

// FromMessage of untrusted messages. INVALID_ARGUMENT: a kind out of range, a digest that is not 32 bytes, a number out
// of range.
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
