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

// One message is sent while the next is made, where that costs no memory or its peer takes them as they come; otherwise
// none lies in memory before its turn. The total goes with the first chunk alone; an empty blob is one empty chunk,
// since the receiver wants to hear of the total.
//
// A job makes, and whoever has something to send sends it: the job, where nothing is on its way, or else the callback
// that hears the end of what was. Whoever is begun by a Step owns that part until it asks the line again, and the
// stream lives for as long as a part is somebody's; what comes to the end gives the other part to nobody.
class DownloadStream final : public ServerStream<grpc::ServerWriteReactor<grpc::ByteBuffer>> {
 public:
  DownloadStream(ServedStreams& shared, grpc::CallbackServerContext* context, grpc::ByteBuffer request)
      : ServerStream(shared, context) {
    // Whose it is stands in the request, so it is never one of those that have said nothing.
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
    int64_t bytes = 0;                         // that it is of
    bool waits_for_end = false;                // which follows it at once
    std::optional<Status> end = std::nullopt;  // instead of a chunk
  };

  static Status CutOff() { return Unavailable("a download was cut off"); }
  Status Know(grpc::ByteBuffer& request) {
    RIVULET_RETURN_IF_ERROR(entered());
    RIVULET_RETURN_IF_ERROR(FromBuffer(request, &request_));
    return Name(request_.caller(), "downloads");
  }
  // How long a blob is shows when it is opened, which costs nothing where it lies in memory; not so what a client
  // keeps. One that is long is closed again until its turn comes.
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
  // A job: makes messages until one lies there, or the next is not to be made ahead.
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
    // The stream's head goes with its first message, and of a head that waits gRPC does not say that it is sent: on a
    // connection without other traffic both sides would wait for each other.
    const bool waits_for_end = !first && request_.offset() + sent_ >= reader_->total_bytes();
    return {.chunk = DownloadChunk(first ? reader_->total_bytes() : 0, part, holder_, packing_),
            .bytes = std::ssize(part),
            .waits_for_end = waits_for_end};
  }
  // False: the stream has come to its end. So has one that was cut off, also where there was more to send.
  bool Send(const Made& made) {
    if (cut_off_ || made.end) {
      End(cut_off_ ? CutOff() : *made.end);
      return false;
    }
    writing_ = made.chunk;
    shared().counts.down += made.bytes;
    shared().counts.down_wire += static_cast<int64_t>(writing_.Length());
    Wait();
    // What is small waits for the end, and its peer hears of both by one packet.
    StartWrite(&writing_, made.waits_for_end ? grpc::WriteOptions().set_buffer_hint() : grpc::WriteOptions());
    return true;
  }

  std::unique_ptr<ChunkReader> reader_;
  BytesHolder holder_;  // of what it gives
  Packing packing_ = Packing::kNone;
  rpc::FetchRequestProto request_;
  std::span<const std::byte> piece_;  // of the reader's, not sent yet
  int64_t sent_ = 0;
  bool began_ = false;
  std::atomic<bool> ahead_ = false;    // one is made while another is on its way
  std::atomic<bool> cut_off_ = false;  // no message reaches its peer any more
  DoubleBuffer<Made> line_;
  grpc::ByteBuffer writing_;
};

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* NewDownload(ServedStreams& shared, grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer& request) {
  return new DownloadStream(shared, context, request);
}

}  // namespace rivulet
