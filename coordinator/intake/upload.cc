#include "coordinator/intake/upload.h"

#include <algorithm>
#include <utility>

namespace rivulet {

// An unnoticed broken connection may still have a writer. Each takeover gets the next number, and bytes are accepted
// only from the holder of the latest. So two connections never interleave, and the newer one need not wait for the
// older one's time-out. A sender of other bytes is no special case: its blocks have other CRCs.
StatusOr<Upload::Turn> Upload::TakeOver(const Submission& submission) {
  int64_t writer = 0;
  Bytes bytes;
  std::unique_ptr<StagedBytes> freed;  // freed without the lock
  {
    MutexLock lock(mutex_);
    writer = ++writer_;
    while (at_work_) idle_.Wait(mutex_);
    if (complete_) return Unavailable("this update is being checked; ask again");
    RIVULET_RETURN_IF_ERROR(CheckTurn(writer));
    if (submission.bytes != submission_.bytes) freed = std::move(std::exchange(bytes_, Bytes()).staged);
    submission_ = submission;
    bytes = std::exchange(bytes_, Bytes());
    at_work_ = true;
  }
  freed.reset();
  Status room;
  if (bytes.staged == nullptr) {
    StatusOr<std::unique_ptr<StagedBytes>> reserved = staging_.Reserve(submission.bytes);
    room = reserved.status();
    if (reserved.ok()) bytes.staged = *std::move(reserved);
  }
  if (room.ok()) bytes.Truncate(std::ssize(bytes.crcs.whole()));
  const std::span<const uint32_t> whole = bytes.crcs.whole();
  Turn turn{writer, {whole.begin(), whole.end()}};
  RIVULET_RETURN_IF_ERROR(PutBack(std::move(bytes)));
  RIVULET_RETURN_IF_ERROR(room);
  return turn;
}

void Upload::Bytes::Truncate(int64_t blocks) {
  crcs.Truncate(blocks);
  staged->Truncate(crcs.bytes());
}

Status Upload::PutBack(Bytes bytes) {
  MutexLock lock(mutex_);
  at_work_ = false;
  idle_.NotifyAll();
  if (cancelled_) return Aborted("{}", reason_);  // the parameter is destroyed after the lock
  bytes_ = std::move(bytes);
  return absl::OkStatus();
}

Status Upload::CheckTurn(int64_t writer) const {
  if (cancelled_) return Aborted("{}", reason_);
  if (writer != writer_ || complete_) return Unavailable("a newer connection continues this upload; ask again");
  return absl::OkStatus();
}

Status Upload::Resume(int64_t writer, int64_t offset) {
  MutexLock lock(mutex_);
  RIVULET_RETURN_IF_ERROR(CheckTurn(writer));
  const int64_t blocks = offset / BlockCrcs::kBlockBytes;
  if (offset < 0 || offset % BlockCrcs::kBlockBytes != 0 || blocks > std::ssize(bytes_.crcs.whole())) {
    return InvalidArgument("an upload cannot continue at byte {}; {} whole blocks of {} bytes are staged", offset,
                           bytes_.crcs.whole().size(), BlockCrcs::kBlockBytes);
  }
  bytes_.Truncate(blocks);
  return absl::OkStatus();
}

Status Upload::WritePieces(int64_t writer, std::span<const std::span<const std::byte>> pieces) {
  int64_t added = 0;
  for (const std::span<const std::byte> piece : pieces) added += std::ssize(piece);
  Bytes bytes;
  int64_t before = 0;
  {
    MutexLock lock(mutex_);
    RIVULET_RETURN_IF_ERROR(CheckTurn(writer));
    before = bytes_.staged->size();
    if (const int64_t missing = submission_.bytes - before; added > missing) {
      return OutOfRange("{} bytes more than the {} announced do not belong to this update", added - missing,
                        submission_.bytes);
    }
    bytes = std::exchange(bytes_, Bytes());
    at_work_ = true;
  }
  const Status status = bytes.staged->AppendPieces(pieces);
  // A full disk may have taken some of the bytes.
  size_t taken = static_cast<size_t>(bytes.staged->size() - before);
  for (const std::span<const std::byte> piece : pieces) {
    bytes.crcs.Append(piece.first(std::min(piece.size(), taken)));
    taken -= std::min(piece.size(), taken);
  }
  RIVULET_RETURN_IF_ERROR(PutBack(std::move(bytes)));
  return status;
}

// From here on the bytes are read without the lock, so no writer and no cancellation may change or free them. Release
// does that, after the fold.
StatusOr<Upload::Whole> Upload::Complete(int64_t writer, const Digest& identity) {
  MutexLock lock(mutex_);
  RIVULET_RETURN_IF_ERROR(CheckTurn(writer));
  if (bytes_.staged->size() != submission_.bytes) {
    return InvalidArgument("{} of {} bytes have arrived; submit again and continue where they end",
                           bytes_.staged->size(), submission_.bytes);
  }
  const Digest arrived = bytes_.crcs.Identity(submission_.step);
  if (arrived != identity) {
    bytes_.Truncate(0);
    return DataLoss("the bytes that arrived have the identity {}, and {} were sent; submit them again", arrived.Hex(),
                    identity.Hex());
  }
  RIVULET_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, bytes_.staged->View());
  complete_ = true;
  return Whole{bytes, arrived, submission_};
}

void Upload::Release() {
  std::unique_ptr<StagedBytes> freed;
  MutexLock lock(mutex_);
  freed = std::move(bytes_.staged);
}

std::unique_ptr<StagedBytes> Upload::Cancel(const std::string& reason) {
  MutexLock lock(mutex_);
  if (complete_ || cancelled_) return nullptr;
  cancelled_ = true;
  reason_ = reason;
  return std::move(bytes_.staged);
}

}  // namespace rivulet
