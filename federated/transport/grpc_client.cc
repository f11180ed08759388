#include "federated/transport/grpc_client.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "federated/transport/chunk_messages.h"
#include "federated/transport/messages.h"
#include "federated/updates/block_crcs.h"
#include "proto/rpc/coordinator.grpc.pb.h"
#include "rpc/grpc_connection.h"
#include "rpc/raw_stream.h"
#include "rpc/transfer_places.h"

namespace rivulet {
namespace {

constexpr char kFetch[] = "/rivulet.rpc.Coordinator/Fetch", kSubmit[] = "/rivulet.rpc.Coordinator/Submit";

const double kFastBytesPerSecond = static_cast<double>(TransferLimits().bytes_per_second);

// The destructor cancels and finishes the stream: otherwise it would keep its place at the server.
class Reader final : public ChunkReader {
 public:
  Reader(std::shared_ptr<ClientConnection> connection, ClientCall::Stream stream, int64_t offset)
      : call_(std::move(connection), stream),
        stream_(std::make_unique<RawStream>(call_.raw(), call_.context(), kFetch)),
        position_(offset) {}
  ~Reader() override {
    if (stream_ == nullptr) return;
    call_.context()->TryCancel();
    (void)stream_->Finish();
  }

  // Reads the first chunk, so that Fetch returns a refusal.
  Status Begin(const rpc::FetchRequestProto& request) {
    (void)stream_->WriteLast(ToBuffer(request));  // on an error, Read returns it
    RIVULET_ASSIGN_OR_RETURN(fresh_, ReadChunk());
    if (!fresh_) return absl::OkStatus();
    if (chunk_.total_bytes < position_) {
      return DataLoss("the coordinator says a blob has {} bytes, and the request began at byte {}", chunk_.total_bytes,
                      position_);
    }
    total_bytes_ = chunk_.total_bytes;
    call_.Moved();
    return absl::OkStatus();
  }

  int64_t total_bytes() const override { return total_bytes_; }

  StatusOr<std::span<const std::byte>> Next() override {
    while (left_.empty() && stream_ != nullptr) {
      if (!std::exchange(fresh_, false)) {
        RIVULET_ASSIGN_OR_RETURN(const bool came, ReadChunk());
        if (!came) break;
      }
      call_.Moved();
      if (chunk_.data.size() == 0) continue;
      // Damaged in transit, not in the coordinator's store: the same bytes can be fetched again.
      if (chunk_.data.Crc() != chunk_.crc) {
        return DataLoss("the {} bytes from byte {} of a download arrived damaged", chunk_.data.size(), position_);
      }
      position_ += chunk_.data.size();
      if (position_ > total_bytes_) {
        return DataLoss("the coordinator sent more than the {} bytes it announced", total_bytes_);
      }
      left_ = chunk_.data.pieces();
    }
    if (left_.empty()) return std::span<const std::byte>();
    const std::span<const std::byte> piece = left_.front();
    left_ = left_.subspan(1);
    return piece;
  }

 private:
  // Returns false when all announced bytes have arrived.
  StatusOr<bool> ReadChunk() {
    chunk_.data.Clear();  // frees the previous chunk before the next arrives
    grpc::ByteBuffer message;
    if (!stream_->Read(&message)) {
      RIVULET_RETURN_IF_ERROR(Finish());
      return false;
    }
    RIVULET_RETURN_IF_ERROR(chunk_.Take(message));
    RIVULET_RETURN_IF_ERROR(chunk_.data.Unpack());
    return true;
  }
  // Returns OK if all announced bytes have arrived.
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
  std::unique_ptr<RawStream> stream_;
  ArrivedDownload chunk_;
  bool fresh_ = false;                                // chunk_ has not been returned yet
  std::span<const std::span<const std::byte>> left_;  // pieces of chunk_ that were not returned yet
  int64_t position_;
  int64_t total_bytes_ = -1;
};

class Writer final : public ChunkWriter {
 public:
  Writer(std::shared_ptr<ClientConnection> connection, ClientCall::Stream stream)
      : call_(std::move(connection), stream),
        stream_(std::make_unique<RawStream>(call_.raw(), call_.context(), kSubmit)) {}
  ~Writer() override {
    if (stream_ == nullptr) return;
    call_.context()->TryCancel();
    (void)stream_->Finish();
  }

  Status Begin(const rpc::SubmitMessageProto& header) {
    const int64_t bytes = left_ = header.header().submission().bytes();
    rpc::SubmitReplyProto reply;
    RIVULET_RETURN_IF_ERROR(Send(ToBuffer(header)));
    RIVULET_RETURN_IF_ERROR(Receive(&reply));
    call_.Moved();
    if (reply.has_result()) {
      RIVULET_RETURN_IF_ERROR(call_.End(std::exchange(stream_, nullptr)->Finish()));
      RIVULET_ASSIGN_OR_RETURN(decided_, FromMessage(reply.result()));
      return absl::OkStatus();
    }
    if (!reply.has_staged() || reply.staged().crcs_size() > bytes / BlockCrcs::kBlockBytes) {
      return Internal("the coordinator's answer to an upload of {} bytes does not say how many are staged", bytes);
    }
    if (reply.staged().zstd()) packing_ = Packing::kZstd;
    staged_.assign(reply.staged().crcs().begin(), reply.staged().crcs().end());
    return absl::OkStatus();
  }

  const SubmitResult* decided() const override { return decided_ ? &*decided_ : nullptr; }
  std::span<const uint32_t> staged_crcs() const override { return staged_; }

  Status Resume(int64_t offset) override {
    if (stream_ == nullptr) return FailedPrecondition("this upload has ended");
    rpc::SubmitMessageProto message;
    message.set_resume(offset);
    left_ -= offset;
    return SendWithNext(ToBuffer(message));
  }

  void LiesIn(std::shared_ptr<const void> holder) override { holder_ = std::move(holder); }

  Status Write(std::span<const std::byte> chunk) override {
    if (stream_ == nullptr) return FailedPrecondition("this upload has ended");
    if (sent_ == 0) begun_ = Clock::now();
    while (!chunk.empty()) {
      const auto part = chunk.first(std::min(chunk.size(), KeepsUp() ? kFastChunkBytes : kChunkBytes));
      chunk = chunk.subspan(part.size());
      left_ -= std::ssize(part);
      const grpc::ByteBuffer message = UploadChunk(part, holder_, packing_);
      RIVULET_RETURN_IF_ERROR(left_ > 0 ? Send(message) : SendWithNext(message));
      sent_ += std::ssize(part);
      call_.Moved();
    }
    return absl::OkStatus();
  }

  StatusOr<SubmitResult> Finish(const Digest& identity) override {
    if (stream_ == nullptr) return FailedPrecondition("this upload has ended");
    rpc::SubmitMessageProto message;
    message.set_finish(std::string(identity.AsBytes()));
    rpc::SubmitReplyProto reply;
    RIVULET_RETURN_IF_ERROR(Send(ToBuffer(message)));
    RIVULET_RETURN_IF_ERROR(Receive(&reply));
    RIVULET_RETURN_IF_ERROR(call_.End(std::exchange(stream_, nullptr)->Finish()));
    if (!reply.has_result()) return Internal("the coordinator answered an upload without a result");
    return FromMessage(reply.result());
  }

 private:
  using Clock = std::chrono::steady_clock;

  // Whether the coordinator receives this upload as fast as it expects from an upload with a place.
  bool KeepsUp() const {
    const std::chrono::duration<double> took = Clock::now() - begun_;
    return sent_ >= kKnownBytes && static_cast<double>(sent_) >= kFastBytesPerSecond * took.count();
  }
  Status Send(const grpc::ByteBuffer& message) { return stream_->Write(message) ? absl::OkStatus() : Ended(); }
  // Writes the resume offset, or the last chunk, together with the next message in one packet.
  Status SendWithNext(const grpc::ByteBuffer& message) {
    return stream_->WriteWithNext(message) ? absl::OkStatus() : Ended();
  }
  Status Receive(rpc::SubmitReplyProto* reply) {
    grpc::ByteBuffer message;
    return stream_->Read(&message) ? FromBuffer(message, reply) : Ended();
  }
  // The error of a broken stream: the server's reason, or the loss of the connection. Never OK.
  Status Ended() {
    const Status end = call_.End(std::exchange(stream_, nullptr)->Finish());
    return end.ok() ? Unavailable("the coordinator ended an upload early") : end;
  }

  ClientCall call_;
  std::unique_ptr<RawStream> stream_;
  std::optional<SubmitResult> decided_;
  std::vector<uint32_t> staged_;
  BytesHolder holder_;  // owner of the written bytes
  Packing packing_ = Packing::kNone;
  int64_t left_ = 0, sent_ = 0;
  Clock::time_point begun_;  // time of the first sent byte
};

class Client final : public GrpcClient {
 public:
  explicit Client(const GrpcClientOptions& options)
      : options_(options),
        connection_(std::make_shared<ClientConnection>("coordinator", options.coordinator, options.credentials,
                                                       options.proxy)) {}

  StatusOr<PollReply> Poll(const PollRequest& request) override {
    rpc::PollRequestProto message;
    ToMessage(request, &message);
    rpc::PollReplyProto reply;
    ClientCall call(connection_, options_.call_timeout + std::chrono::milliseconds(request.hold_ms));
    RIVULET_RETURN_IF_ERROR(call.End(call.StubOf<rpc::Coordinator>()->Poll(call.context(), message, &reply)));
    return FromMessage(reply);
  }

  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller& caller, const BlobId& blob, int64_t offset) override {
    rpc::FetchRequestProto request;
    ToMessage(caller, request.mutable_caller());
    ToMessage(blob, request.mutable_id());
    request.set_offset(offset);
    request.set_zstd(options_.zstd);
    auto reader = std::make_unique<Reader>(connection_, ClientCall::Stream{options_.stream_patience}, offset);
    RIVULET_RETURN_IF_ERROR(reader->Begin(request));
    return reader;
  }

  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override {
    rpc::SubmitMessageProto message;
    ToMessage(caller, message.mutable_header()->mutable_caller());
    ToMessage(submission, message.mutable_header()->mutable_submission());
    message.mutable_header()->set_zstd(options_.zstd);
    auto writer = std::make_unique<Writer>(connection_, ClientCall::Stream{options_.stream_patience});
    RIVULET_RETURN_IF_ERROR(writer->Begin(message));
    return writer;
  }

  Status Fail(const Caller& caller, const TaskFailure& failure) override {
    rpc::FailRequestProto request;
    ToMessage(caller, request.mutable_caller());
    ToMessage(failure, request.mutable_failure());
    rpc::FailReplyProto reply;
    ClientCall call(connection_, options_.call_timeout);
    return call.End(call.StubOf<rpc::Coordinator>()->Fail(call.context(), request, &reply));
  }

  void Cancel() override { connection_->calls().Cancel(); }

 private:
  GrpcClientOptions options_;
  std::shared_ptr<ClientConnection> connection_;  // readers and writers may outlive this object
};

}  // namespace

StatusOr<std::unique_ptr<GrpcClient>> GrpcClient::Create(GrpcClientOptions options) {
  RIVULET_RETURN_IF_ERROR(CheckReachable("coordinator", options.coordinator, *options.credentials));
  return std::make_unique<Client>(options);
}

}  // namespace rivulet
