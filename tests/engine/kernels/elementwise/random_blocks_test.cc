#include "engine/kernels/cpu/elementwise/random_blocks.h"

#include <set>
#include <vector>

#include "engine/kernels/cpu/elementwise/philox_uniform.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

KernelContext At(const StreamKey& stream, uint64_t step) {
  KernelContext context;
  context.rng = &stream;
  context.step = step;
  return context;
}

// Property: the blocks of a tensor larger than the counter's 24 bits meet those of no other place, step or op.
TEST(RandomBlocks, BlocksBeyondTheCounter_AreLikeNoOthers) {
  const StreamKey stream{.key = {{1, 2}}, .ordinal = 3, .round = 4, .purpose = 4};
  std::set<PhiloxBlock> seen;
  size_t drawn = 0;
  for (const uint64_t step : {0, 1, 2}) {
    for (const uint32_t op : {0u, 1u}) {
      ASSERT_OK_AND_ASSIGN(const RandomBlocks blocks, RandomBlocks::OfRun(At(stream, step), op));
      for (const uint64_t part : {0, 1, 2, 300})
        for (const uint64_t i : {0, 1, (1 << 24) - 1}) seen.insert(blocks((part << 24) + i)), ++drawn;
    }
  }
  EXPECT_EQ(seen.size(), drawn);
}

TEST(RandomBlocks, FirstBlocks_AreTheStreamsOwn) {
  const StreamKey stream{.key = {{1, 2}}, .ordinal = 3, .round = 4, .purpose = 4};
  ASSERT_OK_AND_ASSIGN(const RandomBlocks blocks, RandomBlocks::OfRun(At(stream, 5), 6));
  for (const uint64_t i : {0, 7, (1 << 24) - 1}) EXPECT_EQ(blocks(i), stream.Block((uint64_t{5} << 24) + i, 6));
}

// What a stretch says is what the blocks are, one by one, up to where the counter's first word or the key changes.
TEST(RandomBlocks, Stretches_HoldTheSameBlocks) {
  const StreamKey stream{.key = {{1, 2}}, .ordinal = 0xFFF3, .round = 4, .purpose = 4};
  ASSERT_OK_AND_ASSIGN(const RandomBlocks blocks, RandomBlocks::OfRun(At(stream, 0x123456), 0xABCDEF));
  for (const uint64_t first : {uint64_t{0}, uint64_t{99}, uint64_t{1} << 24, (uint64_t{1} << 32) - 1}) {
    const RandomBlocks::Stretch stretch = blocks.From(first);
    ASSERT_GT(stretch.blocks, 0u);
    for (const uint64_t i : {uint64_t{0}, stretch.blocks / 2, stretch.blocks - 1}) {
      PhiloxBlock at = stretch.counter;
      at[0] += static_cast<uint32_t>(i);
      EXPECT_EQ(Philox4x32(stretch.key, at), blocks(first + i)) << first << " " << i;
    }
  }
}

TEST(PhiloxUniform, ManyBlocks_AreThoseOfOneByOne) {
  const PhiloxKey key = {{0xDEADBEEF, 42}};
  const PhiloxBlock counter = {0xFFFFFFF0u, 0xFFFF0001u, 3, 0x04000007u};
  for (const size_t blocks : {1, 15, 16, 31, 32, 33, 100}) {
    std::vector<float> made(4 * blocks + 1, -1.0f);
    UniformFloats(key, counter, blocks, made.data());
    for (size_t b = 0; b < blocks; ++b) {
      PhiloxBlock at = counter;
      at[0] += static_cast<uint32_t>(b);
      const PhiloxBlock words = Philox4x32(key, at);
      for (size_t w = 0; w < 4; ++w) ASSERT_EQ(made[4 * b + w], UniformFloat(words[w])) << blocks << " " << b;
    }
    EXPECT_EQ(made.back(), -1.0f);
  }
}

}  // namespace
}  // namespace rivulet
