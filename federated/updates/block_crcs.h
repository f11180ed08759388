// What bytes on their way are known by: the CRC-32C of each block of 1 MiB, of its own, taken as the bytes come, so
// that nobody reads them a second time. By comparing blocks two ends find where to go on; a digest of all of them is
// the identity of the whole. It is a function of the bytes alone, never of a run, a name or a clock: the same training
// gives the same update, and the same update the same identity.
//
//   identity = SHA-256("RVUP" ‖ u32 step ‖ u64 bytes ‖ u32 n ‖ n × u32 CRC-32C, not masked)     n = ceil(bytes / 2^20)
//
// CRCs find what a connection or a disk has damaged. They are no defence against a peer that wants two updates to look
// alike, which could as well send whichever it likes.
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
  // Forgets everything after the first `blocks` blocks, which must be whole.
  void Truncate(int64_t blocks);
  int64_t bytes() const { return bytes_; }
  std::span<const uint32_t> whole() const;  // of the blocks that are whole
  Digest Identity(int step) const;          // of all bytes so far; the last block may be short

 private:
  int64_t bytes_ = 0;
  std::vector<uint32_t> crcs_;  // the last one is of an open block unless bytes_ is a multiple of the block
};

}  // namespace rivulet
