// Reader of a blob for a Fetch: bytes of any length, served in place, in the pieces in which they are stored.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "federated/transport/coordinator_api.h"

namespace rivulet {

// Bytes to serve in place.
struct Blob {
  int64_t bytes = 0;
  // Returns the bytes from an offset to the end of their piece; empty at the end. Shares ownership of the data, so a
  // model that is replaced during a download lives until the download ends.
  std::function<std::span<const std::byte>(int64_t offset)> at;
};

// Returns the pieces of a blob, of any length. A transport may divide them further.
class BlobReader : public ChunkReader {
 public:
  BlobReader(Blob blob, int64_t offset, std::shared_ptr<std::atomic<int64_t>> counter)
      : blob_(std::make_shared<const Blob>(std::move(blob))), offset_(offset), counter_(std::move(counter)) {}
  int64_t total_bytes() const override { return blob_->bytes; }
  std::shared_ptr<const void> holder() const override { return blob_; }
  StatusOr<std::span<const std::byte>> Next() override {
    const std::span<const std::byte> piece = blob_->at(offset_);
    offset_ += static_cast<int64_t>(piece.size());
    if (counter_ != nullptr) *counter_ += static_cast<int64_t>(piece.size());
    return piece;
  }

 private:
  const std::shared_ptr<const Blob> blob_;
  int64_t offset_;
  const std::shared_ptr<std::atomic<int64_t>> counter_;
};

}  // namespace rivulet
