#include "federated/transport/download_stream.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "federated/transport/chunk_messages.h"
#include "federated/transport/messages.h"

namespace rivulet {
namespace {

// The total goes with the first chunk alone; an empty blob is one empty chunk, since the receiver wants to hear of the
// total.
class DownloadStream final : public ServerStream<grpc::ServerWriteReactor<grpc::ByteBuffer>> {
 public:
  DownloadStream(ServedStreams& shared, grpc::CallbackServerContext* context, grpc::ByteBuffer request)
      : ServerStream(shared, context) {
    // Whose it is stands in the request, so it is never one of those that have said nothing.
    const Status status = Know(request);
    if (status.ok()) {
      WorkInTurn([this] { Begin(); });
    } else {
      End(status);
    }
  }
  void OnWriteDone(bool ok) override {
    Ended(Doing::kWriting, chunk_.Length());
    Work([this, ok] { ok ? Next() : End(Unavailable("a download was cut off")); });
  }

 private:
  Status Know(grpc::ByteBuffer& request) {
    RIVULET_RETURN_IF_ERROR(entered());
    RIVULET_RETURN_IF_ERROR(FromBuffer(request, &request_));
    return Name(request_.caller(), "downloads");
  }
  void Begin() {
    const Status status = Open();
    status.ok() ? Next() : End(status);
  }
  Status Open() {
    RIVULET_ASSIGN_OR_RETURN(const BlobId blob, FromMessage(request_.id()));
    if (blob.form == BlobId::Form::kState && !shared().admit_sites) {
      return PermissionDenied("'{}' asks for what a client keeps, and no site that may is admitted here",
                              caller().name);
    }
    if (request_.offset() < 0) return OutOfRange("offset {} of a blob is negative", request_.offset());
    RIVULET_ASSIGN_OR_RETURN(reader_, shared().api.Fetch(caller(), blob, request_.offset()));
    return absl::OkStatus();
  }
  void Next() {
    if (piece_.empty()) {
      StatusOr<std::span<const std::byte>> next = reader_->Next();
      if (!next.ok()) return End(next.status());
      piece_ = *next;
      if (piece_.empty() && began_) return End(absl::OkStatus());
    }
    const std::span<const std::byte> part =
        piece_.first(std::min(piece_.size(), sent_ >= kKnownBytes && KeepsUp() ? kFastChunkBytes : kChunkBytes));
    piece_ = piece_.subspan(part.size());
    sent_ += std::ssize(part);
    chunk_ = DownloadChunk(std::exchange(began_, true) ? 0 : reader_->total_bytes(), part);
    part.empty() ? WriteLast(&chunk_) : Write(&chunk_);
  }

  std::unique_ptr<ChunkReader> reader_;
  rpc::FetchRequestProto request_;
  std::span<const std::byte> piece_;  // of the reader's, not sent yet
  grpc::ByteBuffer chunk_;
  int64_t sent_ = 0;
  bool began_ = false;
};

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* NewDownload(ServedStreams& shared, grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer& request) {
  return new DownloadStream(shared, context, request);
}

}  // namespace rivulet
