#include "coordinator/intake/upload.h"

#include <algorithm>

namespace rivulet {

// A connection that broke without being noticed may still hold a writer. Each taking over gets the next number, and
// bytes are accepted only from the holder of the latest, so two connections never interleave and the newer one need not
// wait for the older one's time-out. Who sends other bytes need not be told apart: their blocks have other CRCs.
StatusOr<Upload::Turn> Upload::TakeOver(const Submission& submission) {
  MutexLock lock(mutex_);
  if (complete_) return Unavailable("this update is being checked; ask again");
  if (cancelled_) return Aborted("{}", reason_);
  ++writer_;
  if (staged_ != nullptr && submission.bytes != submission_.bytes) {
    Truncate(0);
    staged_.reset();
  }
  submission_ = submission;
  if (staged_ == nullptr) {
    RIVULET_ASSIGN_OR_RETURN(staged_, staging_.Reserve(submission.bytes));
  }
  Truncate(std::ssize(crcs_.whole()));
  const std::span<const uint32_t> whole = crcs_.whole();
  return Turn{writer_, {whole.begin(), whole.end()}};
}

void Upload::Truncate(int64_t blocks) {
  crcs_.Truncate(blocks);
  staged_->Truncate(crcs_.bytes());
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
  if (offset < 0 || offset % BlockCrcs::kBlockBytes != 0 || blocks > std::ssize(crcs_.whole())) {
    return InvalidArgument("an upload cannot continue at byte {}; {} whole blocks of {} bytes are staged", offset,
                           crcs_.whole().size(), BlockCrcs::kBlockBytes);
  }
  Truncate(blocks);
  return absl::OkStatus();
}

Status Upload::WritePieces(int64_t writer, std::span<const std::span<const std::byte>> pieces) {
  MutexLock lock(mutex_);
  RIVULET_RETURN_IF_ERROR(CheckTurn(writer));
  int64_t bytes = 0;
  for (const std::span<const std::byte> piece : pieces) bytes += std::ssize(piece);
  const int64_t before = staged_->size(), missing = submission_.bytes - before;
  if (bytes > missing) {
    return OutOfRange("{} bytes more than the {} announced do not belong to this update", bytes - missing,
                      submission_.bytes);
  }
  const Status status = staged_->AppendPieces(pieces);
  // A full disk may have taken a part.
  size_t taken = static_cast<size_t>(staged_->size() - before);
  for (const std::span<const std::byte> piece : pieces) {
    crcs_.Append(piece.first(std::min(piece.size(), taken)));
    taken -= std::min(piece.size(), taken);
  }
  return status;
}

// From here on the bytes are read without the lock, so nothing may change or free them: no writer, and no cancellation
// either. Release does, when they are folded.
StatusOr<Upload::Whole> Upload::Complete(int64_t writer, const Digest& identity) {
  MutexLock lock(mutex_);
  RIVULET_RETURN_IF_ERROR(CheckTurn(writer));
  if (staged_->size() != submission_.bytes) {
    return InvalidArgument("{} of {} bytes have arrived; submit again and continue where they end", staged_->size(),
                           submission_.bytes);
  }
  const Digest arrived = crcs_.Identity(submission_.step);
  if (arrived != identity) {
    Truncate(0);
    return DataLoss("the bytes that arrived have the identity {}, and {} were sent; submit them again", arrived.Hex(),
                    identity.Hex());
  }
  RIVULET_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, staged_->View());
  complete_ = true;
  return Whole{bytes, arrived, submission_};
}

void Upload::Release() {
  MutexLock lock(mutex_);
  staged_.reset();
}

void Upload::Cancel(const std::string& reason) {
  MutexLock lock(mutex_);
  if (complete_ || cancelled_) return;
  cancelled_ = true;
  reason_ = reason;
  staged_.reset();
}

}  // namespace rivulet
