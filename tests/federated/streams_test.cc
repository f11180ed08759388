#include "federated/random/streams.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/sha256.h"

namespace rivulet {
namespace {

// The known-answer vectors of Random123's kat_vectors, philox4x32 with 10 rounds.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox4x32({{0, 0}}, {0, 0, 0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t all = 0xffffffff;
  EXPECT_EQ(Philox4x32({{all, all}}, {all, all, all, all}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({{0xa4093822, 0x299f31d0}}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(KeyFor, IsTheFirstEightBytesOfSha256OfSeedAndClient) {
  std::string hashed("\x07\0\0\0\0\0\0\0", 8);
  hashed.append("client-00003");
  const Digest digest = Sha256Of(hashed);
  const PhiloxKey key = KeyFor(7, "client-00003");
  for (int byte = 0; byte < 8; ++byte) {
    EXPECT_EQ(digest.bytes[static_cast<size_t>(byte)],
              static_cast<uint8_t>(key.words[static_cast<size_t>(byte / 4)] >> (8 * (byte % 4))));
  }
  EXPECT_FALSE(KeyFor(7, "a") == KeyFor(8, "a"));
  EXPECT_FALSE(KeyFor(7, "a") == KeyFor(7, "b"));
}

TEST(ClientKey, GivesTheStreamsOfItsSeedAndClient) {
  const StreamKey by_name = StreamFor(7, "client-00003", Purpose::kGraph, 5, 2);
  const StreamKey by_key = StreamFor(ClientKey(7, "client-00003"), Purpose::kGraph, 5, 2);
  EXPECT_TRUE(by_key.key == by_name.key);
  EXPECT_EQ(Draws(by_key, 1).Word64(), Draws(by_name, 1).Word64());
}

TEST(StreamFor, EveryPartOfTheCounterGivesAnotherStream) {
  const auto first = [](const StreamKey& stream, uint32_t op) { return Draws(stream, op).Word64(); };
  const StreamKey base = StreamFor(1, "c", Purpose::kShuffle, 3, 1);
  std::vector<uint64_t> values = {first(base, 0),
                                  first(base, 1),
                                  first(StreamFor(1, "c", Purpose::kGraph, 3, 1), 0),
                                  first(StreamFor(1, "c", Purpose::kShuffle, 4, 1), 0),
                                  first(StreamFor(1, "c", Purpose::kShuffle, 3, 2), 0),
                                  first(StreamFor(1, "d", Purpose::kShuffle, 3, 1), 0),
                                  first(StreamFor(2, "c", Purpose::kShuffle, 3, 1), 0)};
  std::sort(values.begin(), values.end());
  EXPECT_EQ(std::adjacent_find(values.begin(), values.end()), values.end());
  EXPECT_EQ(first(base, 5), first(StreamFor(1, "c", Purpose::kShuffle, 3, 1), 5));
}

TEST(Draws, WordsAreTheBlocksInOrder) {
  const StreamKey stream = StreamFor(1, "", Purpose::kSelect, 9);
  Draws draws(stream, 2);
  for (uint64_t block = 0; block < 3; ++block) {
    for (const uint32_t word : stream.Block(block, 2)) EXPECT_EQ(draws.Word(), word);
  }
}

TEST(Draws, BelowStaysBelowAndIsUniform) {
  Draws draws(StreamFor(1, "", Purpose::kSelect), 0);
  std::vector<int> counts(7);
  for (int i = 0; i < 70000; ++i) ++counts.at(draws.Below(7));
  double chi_squared = 0;
  for (const int count : counts) chi_squared += (count - 10000.0) * (count - 10000.0) / 10000.0;
  EXPECT_LT(chi_squared, 22.46);  // 99.9 % of a chi-squared with 6 degrees of freedom
  EXPECT_EQ(draws.Below(1), 0u);
  for (int i = 0; i < 100; ++i) EXPECT_LT(draws.Below((uint64_t{1} << 63) + 1), (uint64_t{1} << 63) + 1);
}

TEST(Draws, UniformAndNormalHaveTheirMoments) {
  Draws draws(StreamFor(3, "", Purpose::kSynthesize), 0);
  constexpr int kCount = 40000;
  double uniform = 0, normal = 0, squares = 0;
  for (int i = 0; i < kCount; ++i) {
    const double u = draws.Uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    uniform += u;
    const double x = draws.Normal();
    ASSERT_TRUE(std::isfinite(x));
    normal += x;
    squares += x * x;
  }
  // Five standard errors.
  EXPECT_NEAR(uniform / kCount, 0.5, 5 * 0.2887 / 200);
  EXPECT_NEAR(normal / kCount, 0.0, 5 * 1.0 / 200);
  EXPECT_NEAR(squares / kCount, 1.0, 5 * 1.4143 / 200);
}

TEST(Permutation, HoldsEveryIndexOnceAndReproduces) {
  Draws draws(StreamFor(1, "c", Purpose::kShuffle), 0);
  const std::vector<uint32_t> order = Permutation(draws, 100);
  std::vector<uint32_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  std::vector<uint32_t> all(100);
  std::iota(all.begin(), all.end(), 0u);
  EXPECT_EQ(sorted, all);
  EXPECT_NE(order, all);
  Draws again(StreamFor(1, "c", Purpose::kShuffle), 0);
  EXPECT_EQ(Permutation(again, 100), order);
  Draws other_epoch(StreamFor(1, "c", Purpose::kShuffle), 1);
  EXPECT_NE(Permutation(other_epoch, 100), order);
}

TEST(Permutation, EveryOrderOfThreeIsEquallyLikely) {
  std::map<std::vector<uint32_t>, int> counts;
  for (uint32_t op = 0; op < 12000; ++op) {
    Draws draws(StreamFor(1, "", Purpose::kShuffle), op);
    ++counts[Permutation(draws, 3)];
  }
  ASSERT_EQ(counts.size(), 6u);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 2000, 5 * 41) << order[0] << order[1] << order[2];
}

TEST(Permutation, OfNothingAndOfOne) {
  Draws draws(StreamFor(1, "", Purpose::kShuffle), 0);
  EXPECT_TRUE(Permutation(draws, 0).empty());
  EXPECT_EQ(Permutation(draws, 1), std::vector<uint32_t>{0});
}

}  // namespace
}  // namespace rivulet
