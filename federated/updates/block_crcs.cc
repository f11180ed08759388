#include "federated/updates/block_crcs.h"

#include <algorithm>

#include "engine/base/check.h"
#include "engine/io/crc32c.h"

namespace rivulet {

void BlockCrcs::Append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const int64_t begun = bytes_ % kBlockBytes;
    if (begun == 0) crcs_.push_back(0);
    const auto part = bytes.first(std::min(bytes.size(), static_cast<size_t>(kBlockBytes - begun)));
    crcs_.back() = ExtendCrc32c(crcs_.back(), part);
    bytes_ += std::ssize(part);
    bytes = bytes.subspan(part.size());
  }
}

void BlockCrcs::Truncate(int64_t blocks) {
  RIVULET_CHECK(blocks >= 0 && blocks * kBlockBytes <= bytes_, "{} blocks of {} bytes", blocks, bytes_);
  bytes_ = blocks * kBlockBytes;
  crcs_.resize(static_cast<size_t>(blocks));
}

std::span<const uint32_t> BlockCrcs::whole() const {
  return std::span(crcs_).first(static_cast<size_t>(bytes_ / kBlockBytes));
}

Digest BlockCrcs::Identity(int step) const {
  Sha256 hash;
  hash.Update("RVUP").UpdateU32(static_cast<uint32_t>(step)).UpdateU64(static_cast<uint64_t>(bytes_));
  hash.UpdateU32(static_cast<uint32_t>(crcs_.size()));
  for (const uint32_t crc : crcs_) hash.UpdateU32(crc);
  return std::move(hash).Finish();
}

}  // namespace rivulet
