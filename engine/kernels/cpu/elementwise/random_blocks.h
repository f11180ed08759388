// Source of a kernel's random numbers: blocks of Philox words by their index, from the run's stream at this step and
// op.
#pragma once

#include "engine/program/kernel.h"

namespace rivulet {

class RandomBlocks {
 public:
  // A stream's 48-bit index: 24 bits of the run's step, 24 bits of the block within the tensor (or part of it).
  static constexpr int kBlockBits = 24;
  static constexpr uint64_t kMaxSteps = uint64_t{1} << 24;

  // FAILED_PRECONDITION: no stream. OUT_OF_RANGE: after the stream's last step.
  static StatusOr<RandomBlocks> OfRun(const KernelContext& context, uint32_t op) {
    if (context.rng == nullptr) return FailedPrecondition("a random op runs without a random stream; bind one");
    if (context.step >= kMaxSteps)
      return OutOfRange("step {} is beyond the {} steps of a random stream", context.step, kMaxSteps);
    RandomBlocks blocks;
    blocks.stream_ = context.rng;
    blocks.first_ = context.step << kBlockBits;
    blocks.op_ = op;
    return blocks;
  }
  // Blocks that differ only in the first word of their counter, which numbers them.
  struct Stretch {
    PhiloxKey key;
    PhiloxBlock counter{};
    uint64_t blocks = 0;
  };
  // Consecutive blocks from `block` on, as far as this form allows.
  Stretch From(uint64_t block) const {
    // The same layout as in StreamKey::Block.
    const StreamKey stream = block >> kBlockBits == 0 ? *stream_ : Beyond(block);
    const uint64_t index = first_ | Low(block);
    return {stream.key,
            {static_cast<uint32_t>(index), (uint32_t{stream.ordinal} << 16) | static_cast<uint32_t>(index >> 32),
             stream.round, (uint32_t{stream.purpose} << 24) | op_},
            (uint64_t{1} << kBlockBits) - Low(block)};
  }

  PhiloxBlock operator()(uint64_t block) const {
    return (block >> kBlockBits == 0 ? *stream_ : Beyond(block)).Block(first_ | Low(block), op_);
  }
  // Words 2i and 2i + 1 combined.
  uint64_t Word64(uint64_t i) const {
    const PhiloxBlock block = (*this)(i / 2);
    const size_t at = (i % 2) * 2;
    return uint64_t{block[at + 1]} << 32 | block[at];
  }

 private:
  static uint64_t Low(uint64_t block) { return block & ((uint64_t{1} << kBlockBits) - 1); }
  // The counter has no further bits for a tensor's blocks: each further 2^24 blocks have a separate key, derived from
  // the stream's key with a counter that no stream uses (their purposes are below 255).
  StreamKey Beyond(uint64_t block) const {
    const uint64_t part = block >> kBlockBits;
    const PhiloxBlock words =
        Philox4x32(stream_->key, {static_cast<uint32_t>(part), static_cast<uint32_t>(part >> 32), 0, 0xFF000000u});
    StreamKey stream = *stream_;
    stream.key = {{words[0], words[1]}};
    return stream;
  }

  const StreamKey* stream_ = nullptr;
  uint64_t first_ = 0;  // of the stream
  uint32_t op_ = 0;
};

}  // namespace rivulet
