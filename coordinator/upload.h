// One task's upload on its way in: who writes it, how much has arrived, what became of it.
//
// A connection may die and its client come back while the old one still looks alive, so each Submit takes the upload
// over, and a writer that was taken over can do no more. Thread-safe.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "coordinator/staging/staging.h"
#include "engine/base/mutex.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"

namespace rivulet {

class Upload {
 public:
  Upload(std::unique_ptr<StagedBytes> staged, int64_t total_bytes, const Digest& digest)
      : total_bytes_(total_bytes), digest_(digest), staged_(std::move(staged)) {}

  int64_t total_bytes() const { return total_bytes_; }
  const Digest& digest() const { return digest_; }

  // Makes the caller the only writer; returns its number and the bytes already staged. UNAVAILABLE: it is being
  // checked.
  struct Turn {
    int64_t writer = 0;
    int64_t offset = 0;
  };
  StatusOr<Turn> TakeOver();
  bool Same(int64_t total_bytes, const Digest& digest) const {
    return total_bytes == total_bytes_ && digest == digest_;
  }

  // UNAVAILABLE: taken over. ABORTED: cancelled, with the reason. OUT_OF_RANGE: more than was announced.
  // RESOURCE_EXHAUSTED: no room; what was written before stays.
  Status Write(int64_t writer, std::span<const std::byte> chunk);
  // The whole upload, valid until Release. After OK no writer and no Cancel touches it. INVALID_ARGUMENT: bytes are
  // missing.
  StatusOr<std::span<const std::byte>> Complete(int64_t writer);
  // Frees the bytes of an upload that Complete gave.
  void Release();
  // The task is resolved without it: frees the bytes unless Complete has given them.
  void Cancel(const std::string& reason);

 private:
  Status CheckTurn(int64_t writer) const REQUIRES(mutex_);

  const int64_t total_bytes_;
  const Digest digest_;
  Mutex mutex_;
  int64_t writer_ GUARDED_BY(mutex_) = 0;
  bool complete_ GUARDED_BY(mutex_) = false;
  bool cancelled_ GUARDED_BY(mutex_) = false;
  std::string reason_ GUARDED_BY(mutex_);
  std::unique_ptr<StagedBytes> staged_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
