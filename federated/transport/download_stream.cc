#include "federated/transport/download_stream.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "federated/transport/chunk_messages.h"
#include "federated/transport/messages.h"
#include "rpc/double_buffer.h"

namespace rivulet {
namespace {

// Sends one message while it makes the next, if that needs no memory or the peer receives fast; otherwise messages are
// made one at a time. Only the first chunk has the total; an empty blob is sent as one empty chunk, because the
// receiver needs the total.
//
// Two parties alternate: a job makes messages, and either the job (if no write is pending) or the callback at the end
// of a write sends them. A party started by a Step owns its part until it calls the line again, and the stream lives
// while any part is owned. The party that reaches the end does not start the other again.
class DownloadStream final : public ServerStream<grpc::ServerWriteReactor<grpc::ByteBuffer>> {
 public:
  DownloadStream(ServedStreams& shared, grpc::CallbackServerContext* context, grpc::ByteBuffer request)
      : ServerStream(shared, context) {
    // The request names the caller, so this stream never counts as anonymous.
    const Status status = Know(request);
    if (status.ok()) {
      constexpr int64_t kShort = 0;
      const bool if_short = request_.id().form() != static_cast<int>(BlobId::Form::kState);
      WorkInTurn(if_short ? kShort : kLong, [this, if_short] { Begin(if_short); });
    } else {
      End(status);
    }
  }
  void OnWriteDone(bool ok) override {
    Moved(writing_.Length());
    if (!ok) cut_off_ = true;
    const auto step = line_.Next(ahead_, [] {});
    if (step.use && !Send(*step.use)) return;
    if (step.make) Run([this] { Make(); });
  }

 private:
  static constexpr int64_t kLong = std::numeric_limits<int64_t>::max();
  struct Made {
    grpc::ByteBuffer chunk = {};
    int64_t bytes = 0;                         // payload bytes of the message
    bool waits_for_end = false;                // the end follows at once
    std::optional<Status> end = std::nullopt;  // the stream's end, instead of a chunk
  };

  static Status CutOff() { return Unavailable("a download was cut off"); }
  Status Know(grpc::ByteBuffer& request) {
    RIVULET_RETURN_IF_ERROR(entered());
    RIVULET_RETURN_IF_ERROR(FromBuffer(request, &request_));
    return Name(request_.caller(), "downloads");
  }
  // The blob's length is known once it is opened, which is free for blobs in memory but not for client state. A long
  // one is closed again until its turn in the queue.
  void Begin(bool if_short) {
    const Status status = Open();
    if (!status.ok()) return End(status);
    if (if_short && !IsShort(reader_->total_bytes() - request_.offset())) {
      holder_.reset();
      reader_.reset();
      return WorkInTurn(kLong, [this] { Begin(false); });
    }
    Move();
    Make();
  }
  Status Open() {
    RIVULET_ASSIGN_OR_RETURN(const BlobId blob, FromMessage(request_.id()));
    if (blob.form == BlobId::Form::kState && !shared().admit_sites) {
      return PermissionDenied("'{}' asks for a client's state, and no site with that right is admitted here",
                              caller().name);
    }
    if (request_.offset() < 0) return OutOfRange("offset {} of a blob is negative", request_.offset());
    RIVULET_ASSIGN_OR_RETURN(reader_, shared().api.Fetch(caller(), blob, request_.offset()));
    holder_ = reader_->holder();
    if (request_.zstd()) packing_ = Packing::kZstd;
    return absl::OkStatus();
  }
  // A job: makes messages until one is pending, or until none may be made ahead.
  void Make() {
    for (bool more = true; more;) {
      Made made = MakeNext();
      const bool ended = made.end.has_value();
      const auto step = line_.Offer(std::move(made), ahead_ && !ended);
      more = (!step.use || Send(*step.use)) && step.make;
    }
  }
  Made MakeNext() {
    if (cut_off_) return {.end = CutOff()};
    if (piece_.empty()) {
      StatusOr<std::span<const std::byte>> next = reader_->Next();
      if (!next.ok()) return {.end = next.status()};
      piece_ = *next;
      if (piece_.empty() && began_) return {.end = absl::OkStatus()};
    }
    const bool keeps_up = sent_ >= kKnownBytes && KeepsUp();
    ahead_ = keeps_up || (holder_ != nullptr && packing_ == Packing::kNone);
    const std::span<const std::byte> part =
        piece_.first(std::min(piece_.size(), keeps_up ? kFastChunkBytes : kChunkBytes));
    piece_ = piece_.subspan(part.size());
    sent_ += std::ssize(part);
    const bool first = !std::exchange(began_, true);
    // The stream's headers are sent with its first message. gRPC does not report that buffered headers were sent: on an
    // otherwise idle connection both sides would wait for each other.
    const bool waits_for_end = !first && request_.offset() + sent_ >= reader_->total_bytes();
    return {.chunk = DownloadChunk(first ? reader_->total_bytes() : 0, part, holder_, packing_),
            .bytes = std::ssize(part),
            .waits_for_end = waits_for_end};
  }
  // Returns false at the stream's end, which a cancelled stream also reaches before it has sent everything.
  bool Send(const Made& made) {
    if (cut_off_ || made.end) {
      End(cut_off_ ? CutOff() : *made.end);
      return false;
    }
    writing_ = made.chunk;
    shared().counts.down += made.bytes;
    shared().counts.down_wire += static_cast<int64_t>(writing_.Length());
    Wait();
    // A short message is buffered with the end, so that the peer receives both in one packet.
    StartWrite(&writing_, made.waits_for_end ? grpc::WriteOptions().set_buffer_hint() : grpc::WriteOptions());
    return true;
  }

  std::unique_ptr<ChunkReader> reader_;
  BytesHolder holder_;  // owner of the sent bytes
  Packing packing_ = Packing::kNone;
  rpc::FetchRequestProto request_;
  std::span<const std::byte> piece_;  // of the reader, not sent yet
  int64_t sent_ = 0;
  bool began_ = false;
  std::atomic<bool> ahead_ = false;    // a message is made while another is being sent
  std::atomic<bool> cut_off_ = false;  // messages no longer reach the peer
  DoubleBuffer<Made> line_;
  grpc::ByteBuffer writing_;
};

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* NewDownload(ServedStreams& shared, grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer& request) {
  return new DownloadStream(shared, context, request);
}

}  // namespace rivulet
