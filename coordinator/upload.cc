#include "coordinator/upload.h"

namespace rivulet {

// A connection that broke without being noticed may still hold a writer. Each taking over gets the next number, and
// bytes are accepted only from the holder of the latest, so two connections never interleave and the newer one need not
// wait for the older one's time-out.
StatusOr<Upload::Turn> Upload::TakeOver() {
  MutexLock lock(mutex_);
  if (complete_) return Unavailable("this update is being checked; ask again");
  if (cancelled_) return Aborted("{}", reason_);
  return Turn{++writer_, staged_->size()};
}

Status Upload::CheckTurn(int64_t writer) const {
  if (cancelled_) return Aborted("{}", reason_);
  if (writer != writer_ || complete_) return Unavailable("a newer connection goes on with this upload");
  return absl::OkStatus();
}

Status Upload::Write(int64_t writer, std::span<const std::byte> chunk) {
  MutexLock lock(mutex_);
  RIVULET_RETURN_IF_ERROR(CheckTurn(writer));
  if (chunk.size() > static_cast<size_t>(total_bytes_ - staged_->size())) {
    return OutOfRange("{} bytes more than the {} announced do not belong to this update",
                      chunk.size() - static_cast<size_t>(total_bytes_ - staged_->size()), total_bytes_);
  }
  return staged_->Append(chunk);
}

// From here on the bytes are read without the lock, so nothing may change or free them: no writer, and no cancellation
// either. Release does, when they are folded.
StatusOr<std::span<const std::byte>> Upload::Complete(int64_t writer) {
  MutexLock lock(mutex_);
  RIVULET_RETURN_IF_ERROR(CheckTurn(writer));
  if (staged_->size() != total_bytes_) {
    return InvalidArgument("{} of {} bytes have arrived; submit again and go on at the offset given", staged_->size(),
                           total_bytes_);
  }
  RIVULET_ASSIGN_OR_RETURN(const auto bytes, staged_->View());
  complete_ = true;
  return bytes;
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
