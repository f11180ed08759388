// Checksums of a byte stream: the CRC-32C of each block of 1 MiB, computed as bytes arrive, so that they are read only
// once. By comparing blocks, two ends find the offset to resume at; a digest of all of them identifies the whole. It
// depends on the bytes alone, never on a run, a name or a clock. The same training gives the same update, and the same
// update the same identity.
//
//   identity = SHA-256("RVUP" ‖ u32 step ‖ u64 bytes ‖ u32 n ‖ n × u32 CRC-32C, not masked)     n = ceil(bytes / 2^20)
//
// CRCs detect damage by a connection or a disk. They do not protect against a malicious peer that makes two updates
// look alike; such a peer could also send either of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/sha256.h"

namespace rivulet {

class BlockCrcs {
 public:
  static constexpr int64_t kBlockBytes = int64_t{1} << 20;

  void Append(std::span<const std::byte> bytes);
  // Drops everything after the first `blocks` blocks, which must be complete.
  void Truncate(int64_t blocks);
  int64_t bytes() const { return bytes_; }
  std::span<const uint32_t> whole() const;  // of the complete blocks
  Digest Identity(int step) const;          // of all bytes so far; the last block may be short

 private:
  int64_t bytes_ = 0;
  std::vector<uint32_t> crcs_;  // the last one is of an incomplete block unless bytes_ is a multiple of the block size
};

}  // namespace rivulet
