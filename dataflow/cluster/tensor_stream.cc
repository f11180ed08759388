#include "dataflow/cluster/tensor_stream.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "dataflow/cluster/tensor_message.h"
#include "dataflow/cluster/worker_calls.h"
#include "engine/base/shown_text.h"
#include "proto/distributed/worker.pb.h"

namespace rivulet {
namespace {

// gRPC lets go of a slice on any of its threads, when the connection has sent it. Of C it takes a pointer alone.
grpc::Slice SliceOf(Tensor tensor) {
  auto* const held = new Tensor(std::move(tensor));
  return {held->data(), held->bytes(), [](void* values) { delete static_cast<Tensor*>(values); }, held};
}

class TensorSend final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  void Start(const TaskCallers& callers, const std::shared_ptr<GraphWorker>& worker, const grpc::ByteBuffer* request) {
    callers.pool().Schedule([this, worker, request] {
      grpc::ByteBuffer bytes = *request;  // the same slices
      grpc::ProtoBufferReader reader(&bytes);
      if (!request_.ParseFromZeroCopyStream(&reader))
        return Finish(ToGrpc(InvalidArgument("the request is no RecvTensorRequest")));
      AnswerCall(*worker, request_, &message_, cancel_, [this](const Status& status) {
        if (!status.ok()) return Finish(ToGrpc(status));
        Write();
      });
    });
  }
  void OnCancel() override { cancel_.Cancel(); }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    WriteNext();
  }
  void OnDone() override { delete this; }

 private:
  void Write() {
    std::vector<grpc::Slice> slices = {grpc::Slice(message_.head)};
    if (message_.values) values_ = SliceOf(*std::exchange(message_.values, std::nullopt));
    if (!message_.in_pieces) {
      if (values_) slices.push_back(*std::exchange(values_, std::nullopt));
      out_ = grpc::ByteBuffer(slices.data(), slices.size());
      return StartWriteAndFinish(&out_, {}, grpc::Status::OK);
    }
    out_ = grpc::ByteBuffer(slices.data(), slices.size());
    StartWrite(&out_);
  }
  void WriteNext() {
    const size_t begin = sent_, end = std::min(begin + kPieceBytes, values_->size());
    sent_ = end;
    const grpc::Slice piece = values_->sub(begin, end);
    out_ = grpc::ByteBuffer(&piece, 1);
    if (end < values_->size()) return StartWrite(&out_);
    StartWriteAndFinish(&out_, {}, grpc::Status::OK);
  }

  const CancellationToken cancel_ = CancellationToken::Create();
  tensorflow::RecvTensorRequest request_;
  TensorMessage message_;
  std::optional<grpc::Slice> values_;  // of an answer in pieces
  size_t sent_ = 0;
  grpc::ByteBuffer out_;
};

// A call that may not be made.
class RefusedSend final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  explicit RefusedSend(const Status& refused) { Finish(ToGrpc(refused)); }
  void OnDone() override { delete this; }
};

// Owns itself from Start to OnDone.
class TensorReceive final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  TensorReceive(std::shared_ptr<TaskChannel> task, std::string key, const CancellationToken& cancel,
                RemoteTask::TensorDone done)
      : task_(std::move(task)),
        stub_(task_->channel()),
        key_(std::move(key)),
        cancel_(cancel),
        done_(std::move(done)) {}

  // The token is registered first: a context that is cancelled before its call begins is cancelled when it does.
  static void Start(std::unique_ptr<TensorReceive> receive, const tensorflow::RecvTensorRequest& request) {
    receive->callback_ = receive->cancel_.OnCancel([raw = &receive->context_] { raw->TryCancel(); });
    if (receive->cancel_.cancelled()) {
      receive->cancel_.Forget(receive->callback_);
      return receive->done_(Cancelled("the call was cancelled"));
    }
    TensorReceive* const call = receive.release();
    const grpc::Slice bytes(request.SerializeAsString());
    call->request_ = grpc::ByteBuffer(&bytes, 1);
    call->stub_.PrepareBidiStreamingCall(&call->context_, "/tensorflow.WorkerService/RecvTensor", {}, call);
    call->StartWriteLast(&call->request_, {});
    call->StartRead(&call->in_);
    call->StartCall();
  }

  // The next message is asked for before this one is copied: both happen at once, and perhaps on two threads. Only
  // what stands before StartRead is in the messages' order.
  void OnReadDone(bool ok) override {
    if (!ok) return;  // OnDone says how it ended
    grpc::ByteBuffer message;
    message.Swap(&in_);
    if (messages_++ == 0) return Begin(std::move(message));
    const size_t begin = begun_, bytes = message.Length();
    if (!tensor_ || bytes > tensor_->bytes() - begin)
      return Fail(InvalidArgument("the answer for the tensor '{}' has more bytes than it announced", Shortened(key_)));
    begun_ += bytes;
    StartRead(&in_);
    std::vector<grpc::Slice> slices;
    if (!message.Dump(&slices).ok()) slices.clear();
    size_t at = begin;
    for (const grpc::Slice& slice : slices) {
      std::memcpy(tensor_->data() + at, slice.begin(), slice.size());
      at += slice.size();
    }
  }

  void OnDone(const grpc::Status& status) override {
    cancel_.Forget(callback_);
    const std::unique_ptr<TensorReceive> self(this);
    const Status ended = task_->End(status);
    done_(Received(ended));
  }

 private:
  void Begin(grpc::ByteBuffer message) {
    grpc::ProtoBufferReader reader(&message);
    StatusOr<std::optional<Tensor>> tensor = TensorInPieces(message.Length(), key_, reader);
    if (!tensor.ok()) return Fail(tensor.status());
    tensor_ = *std::move(tensor);
    if (!tensor_) whole_ = std::move(message);
    StartRead(&in_);
  }
  void Fail(const Status& status) {
    failed_ = status;
    context_.TryCancel();
  }
  StatusOr<Tensor> Received(const Status& ended) {
    if (!failed_.ok()) return failed_;
    RIVULET_RETURN_IF_ERROR(ended);
    if (!tensor_) {
      return TensorFromMessage(whole_.Length(), key_,
                               [&] { return std::make_unique<grpc::ProtoBufferReader>(&whole_); });
    }
    if (begun_ < tensor_->bytes())
      return InvalidArgument("the answer for the tensor '{}' ended after {} of {} bytes", Shortened(key_), begun_,
                             tensor_->bytes());
    return *std::move(tensor_);
  }

  const std::shared_ptr<TaskChannel> task_;
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub_;
  const std::string key_;
  const CancellationToken cancel_;
  uint64_t callback_ = 0;
  const RemoteTask::TensorDone done_;
  grpc::ClientContext context_;
  grpc::ByteBuffer request_, in_, whole_;
  size_t messages_ = 0, begun_ = 0;
  std::optional<Tensor> tensor_;  // of an answer in pieces
  Status failed_;
};

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* SendTensor(grpc::CallbackServerContext* context, const TaskCallers& callers,
                                                       std::shared_ptr<GraphWorker> worker,
                                                       const grpc::ByteBuffer* request) {
  if (const Status allowed = callers.Check(*context); !allowed.ok()) return new RefusedSend(allowed);
  auto* const send = new TensorSend();
  send->Start(callers, worker, request);
  return send;
}

void ReceiveTensor(std::shared_ptr<TaskChannel> channel, int64_t step, const std::string& key,
                   const CancellationToken& cancel, RemoteTask::TensorDone done) {
  tensorflow::RecvTensorRequest request;
  request.set_step_id(step);
  request.set_rendezvous_key(key);
  request.set_rivulet_pieces(true);
  TensorReceive::Start(std::make_unique<TensorReceive>(std::move(channel), key, cancel, std::move(done)), request);
}

}  // namespace rivulet
