// Reader of a base for a Fetch. It copies stretches of the base's files, so a file that shrinks fails one download and
// not the process.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "federated/transport/coordinator_api.h"
#include "federated/weights/base.h"

namespace rivulet {

class BaseReader : public ChunkReader {
 public:
  // `offset` lies within the base's travel_bytes(). `counter`, unless null, counts the bytes that were read.
  BaseReader(std::shared_ptr<const Base> base, int64_t offset, std::shared_ptr<std::atomic<int64_t>> counter)
      : base_(std::move(base)), offset_(offset), counter_(std::move(counter)) {}
  int64_t total_bytes() const override { return base_->travel_bytes(); }
  StatusOr<std::span<const std::byte>> Next() override {
    constexpr int64_t kStretch = 960 << 10;
    const int64_t bytes = std::min(kStretch, base_->travel_bytes() - offset_);
    stretch_.resize(static_cast<size_t>(bytes));
    const Status read = base_->ReadTravelling(offset_, stretch_);
    // A fault of this side: the receiver would take damaged bytes for a fault of the connection, and retry.
    if (!read.ok()) return FailedPrecondition("{}", Message(read));
    offset_ += bytes;
    if (counter_ != nullptr) *counter_ += bytes;
    return std::span<const std::byte>(stretch_);
  }

 private:
  const std::shared_ptr<const Base> base_;
  int64_t offset_;
  const std::shared_ptr<std::atomic<int64_t>> counter_;
  std::vector<std::byte> stretch_;
};

}  // namespace rivulet
