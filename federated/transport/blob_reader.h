// Reader of a blob for a Fetch: bytes of any length, served in place and in the pieces in which they are stored.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "federated/transport/coordinator_api.h"

namespace rivulet {

// Bytes to be served that stay where they are.
struct Blob {
  int64_t bytes = 0;
  // What begins at an offset, as far as it lies in one piece; empty at the end. Shares what it reads, so a model that
  // is replaced while somebody downloads it lives until the download ends.
  std::function<std::span<const std::byte>(int64_t offset)> at;
};

// Gives the pieces of a blob, however long. A transport cuts them as it likes.
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
