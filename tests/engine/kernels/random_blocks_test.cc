#include "engine/kernels/cpu/random_blocks.h"

#include <set>

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

}  // namespace
}  // namespace rivulet
