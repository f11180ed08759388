#include "federated/transport/grpc_client.h"

#include <optional>
#include <vector>

#include "engine/io/crc32c.h"
#include "federated/transport/grpc_connection.h"
#include "federated/transport/messages.h"
#include "federated/updates/block_crcs.h"

namespace rivulet {
namespace {

// The destructor cancels and finishes: a stream that is left open keeps its place at the server.
class Reader final : public ChunkReader {
 public:
  Reader(std::shared_ptr<ClientConnection> connection, ClientCall::Stream stream, const rpc::FetchRequestProto& request)
      : call_(std::move(connection), stream),
        stream_(call_.stub().Fetch(call_.context(), request)),
        position_(request.offset()) {}
  ~Reader() override {
    if (stream_ == nullptr) return;
    call_.context()->TryCancel();
    (void)stream_->Finish();
  }

  // Reads the first chunk, so that a refusal shows at Fetch.
  Status Begin() {
    if (!stream_->Read(&message_)) return Finish();
    if (message_.total_bytes() < position_) {
      return DataLoss("the coordinator says a blob has {} bytes, and was asked from byte {}", message_.total_bytes(),
                      position_);
    }
    total_bytes_ = message_.total_bytes();
    fresh_ = true;
    call_.Moved();
    return absl::OkStatus();
  }

  int64_t total_bytes() const override { return total_bytes_; }

  StatusOr<std::span<const std::byte>> Next() override {
    while (stream_ != nullptr) {
      if (!fresh_ && !stream_->Read(&message_)) {
        RIVULET_RETURN_IF_ERROR(Finish());
        break;
      }
      fresh_ = false;
      call_.Moved();
      if (message_.data().empty()) continue;
      // Damaged on the way, and not what the coordinator keeps: the same bytes can be had again.
      if (Crc32c(message_.data()) != message_.crc()) {
        return DataLoss("the {} bytes from byte {} of a download came damaged", message_.data().size(), position_);
      }
      position_ += static_cast<int64_t>(message_.data().size());
      if (position_ > total_bytes_) {
        return DataLoss("the coordinator sent more than the {} bytes it announced", total_bytes_);
      }
      return std::as_bytes(std::span(message_.data()));
    }
    return std::span<const std::byte>();
  }

 private:
  // OK: everything announced has come.
  Status Finish() {
    const Status end = call_.End(stream_->Finish());
    stream_.reset();
    if (!end.ok()) return end;
    if (position_ != total_bytes_ || total_bytes_ < 0) {
      return Unavailable("a download ended at byte {} of {}", position_, total_bytes_);
    }
    return absl::OkStatus();
  }

  ClientCall call_;
  std::unique_ptr<grpc::ClientReader<rpc::ChunkProto>> stream_;
  rpc::ChunkProto message_;
  bool fresh_ = false;  // message_ holds a chunk not yet given
  int64_t position_;
  int64_t total_bytes_ = -1;
};

class Writer final : public ChunkWriter {
 public:
  Writer(std::shared_ptr<ClientConnection> connection, ClientCall::Stream stream)
      : call_(std::move(connection), stream), stream_(call_.stub().Submit(call_.context())) {}
  ~Writer() override {
    if (stream_ == nullptr) return;
    call_.context()->TryCancel();
    (void)stream_->Finish();
  }

  Status Begin(rpc::SubmitMessageProto header) {
    rpc::SubmitReplyProto reply;
    const int64_t bytes = header.header().submission().bytes();
    if (!stream_->Write(header) || !stream_->Read(&reply)) return Ended();
    call_.Moved();
    if (reply.has_result()) {
      RIVULET_RETURN_IF_ERROR(call_.End(std::exchange(stream_, nullptr)->Finish()));
      RIVULET_ASSIGN_OR_RETURN(decided_, FromMessage(reply.result()));
      return absl::OkStatus();
    }
    if (!reply.has_staged() || reply.staged().crcs_size() > bytes / BlockCrcs::kBlockBytes) {
      return Internal("the coordinator answered an upload of {} bytes with something other than what is staged of it",
                      bytes);
    }
    staged_.assign(reply.staged().crcs().begin(), reply.staged().crcs().end());
    return absl::OkStatus();
  }

  const SubmitResult* decided() const override { return decided_ ? &*decided_ : nullptr; }
  std::span<const uint32_t> staged_crcs() const override { return staged_; }

  Status Resume(int64_t offset) override {
    if (stream_ == nullptr) return FailedPrecondition("this upload has ended");
    message_.set_resume(offset);
    return stream_->Write(message_) ? absl::OkStatus() : Ended();
  }

  Status Write(std::span<const std::byte> chunk) override {
    if (stream_ == nullptr) return FailedPrecondition("this upload has ended");
    while (!chunk.empty()) {
      const size_t part = std::min(chunk.size(), kChunkBytes);
      message_.set_chunk(chunk.data(), part);
      chunk = chunk.subspan(part);
      if (!stream_->Write(message_)) return Ended();
      call_.Moved();
    }
    return absl::OkStatus();
  }

  StatusOr<SubmitResult> Finish(const Digest& identity) override {
    if (stream_ == nullptr) return FailedPrecondition("this upload has ended");
    message_.set_finish(std::string(identity.AsBytes()));
    rpc::SubmitReplyProto reply;
    if (!stream_->Write(message_) || !stream_->Read(&reply)) return Ended();
    RIVULET_RETURN_IF_ERROR(call_.End(std::exchange(stream_, nullptr)->Finish()));
    if (!reply.has_result()) return Internal("the coordinator answered an upload without a result");
    return FromMessage(reply.result());
  }

 private:
  // The stream broke: the reason the server gave, or the loss of the connection. Never OK.
  Status Ended() {
    const Status end = call_.End(std::exchange(stream_, nullptr)->Finish());
    return end.ok() ? Unavailable("the coordinator ended an upload early") : end;
  }

  ClientCall call_;
  std::unique_ptr<grpc::ClientReaderWriter<rpc::SubmitMessageProto, rpc::SubmitReplyProto>> stream_;
  rpc::SubmitMessageProto message_;
  std::optional<SubmitResult> decided_;
  std::vector<uint32_t> staged_;
};

class Client final : public GrpcClient {
 public:
  explicit Client(const GrpcClientOptions& options)
      : options_(options),
        connection_(std::make_shared<ClientConnection>(options.coordinator, options.credentials, options.proxy)) {}

  StatusOr<PollReply> Poll(const PollRequest& request) override {
    rpc::PollRequestProto message;
    ToMessage(request, &message);
    rpc::PollReplyProto reply;
    ClientCall call(connection_, options_.call_timeout + std::chrono::milliseconds(request.hold_ms));
    RIVULET_RETURN_IF_ERROR(call.End(call.stub().Poll(call.context(), message, &reply)));
    return FromMessage(reply);
  }

  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller& caller, const BlobId& blob, int64_t offset) override {
    rpc::FetchRequestProto request;
    ToMessage(caller, request.mutable_caller());
    ToMessage(blob, request.mutable_id());
    request.set_offset(offset);
    auto reader = std::make_unique<Reader>(connection_, ClientCall::Stream{options_.stream_patience}, request);
    RIVULET_RETURN_IF_ERROR(reader->Begin());
    return reader;
  }

  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override {
    rpc::SubmitMessageProto message;
    ToMessage(caller, message.mutable_header()->mutable_caller());
    ToMessage(submission, message.mutable_header()->mutable_submission());
    auto writer = std::make_unique<Writer>(connection_, ClientCall::Stream{options_.stream_patience});
    RIVULET_RETURN_IF_ERROR(writer->Begin(std::move(message)));
    return writer;
  }

  Status Fail(const Caller& caller, const TaskFailure& failure) override {
    rpc::FailRequestProto request;
    ToMessage(caller, request.mutable_caller());
    ToMessage(failure, request.mutable_failure());
    rpc::FailReplyProto reply;
    ClientCall call(connection_, options_.call_timeout);
    return call.End(call.stub().Fail(call.context(), request, &reply));
  }

  void Cancel() override { connection_->calls().Cancel(); }

 private:
  GrpcClientOptions options_;
  std::shared_ptr<ClientConnection> connection_;  // readers and writers may outlive this object
};

}  // namespace

StatusOr<std::unique_ptr<GrpcClient>> GrpcClient::Create(GrpcClientOptions options) {
  RIVULET_RETURN_IF_ERROR(CheckReachable(options.coordinator, *options.credentials));
  return std::make_unique<Client>(options);
}

}  // namespace rivulet
