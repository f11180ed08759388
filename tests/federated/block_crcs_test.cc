#include "federated/updates/block_crcs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "engine/io/crc32c.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kBlock = BlockCrcs::kBlockBytes;

std::string RandomBytes(size_t count) {
  std::mt19937 random(7);
  std::string bytes(count, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

BlockCrcs Of(std::string_view bytes, size_t chunk = SIZE_MAX) {
  BlockCrcs crcs;
  while (!bytes.empty()) {
    const std::string_view part = bytes.substr(0, chunk);
    crcs.Append(std::as_bytes(std::span(part.data(), part.size())));
    bytes.remove_prefix(part.size());
  }
  return crcs;
}

TEST(BlockCrcs, EachBlock_HasTheCrcOfItsOwnBytes) {
  const std::string bytes = RandomBytes(2 * kBlock + 3);
  const BlockCrcs crcs = Of(bytes);
  EXPECT_EQ(crcs.bytes(), 2 * kBlock + 3);
  EXPECT_THAT(crcs.whole(), ElementsAre(Crc32c(std::string_view(bytes).substr(0, kBlock)),
                                        Crc32c(std::string_view(bytes).substr(kBlock, kBlock))));
  EXPECT_THAT(Of(bytes.substr(0, kBlock - 1)).whole(), IsEmpty());
  EXPECT_THAT(Of(bytes.substr(0, kBlock)).whole(), SizeIs(1));
}

TEST(BlockCrcs, Identity_DependsOnTheBytesAndNotOnHowTheyCame) {
  const std::string bytes = RandomBytes(2 * kBlock + 3);
  const Digest identity = Of(bytes).Identity(0);
  for (const size_t chunk : {size_t{999}, size_t{262'144}, size_t{kBlock}, size_t{kBlock + 1}}) {
    EXPECT_EQ(Of(bytes, chunk).Identity(0), identity) << chunk;
  }
  for (const size_t at : {size_t{0}, size_t{kBlock}, bytes.size() - 1}) {
    std::string changed = bytes;
    changed[at] ^= 1;
    EXPECT_NE(Of(changed).Identity(0), identity) << at;
  }
  EXPECT_NE(Of(bytes.substr(1)).Identity(0), identity);
  EXPECT_NE(Of(bytes).Identity(1), identity) << "of another step";
}

// Frozen: what stands in histories.
TEST(BlockCrcs, Identity_IsTheDigestOfThePage) {
  Sha256 hash;
  hash.Update("RVUP").UpdateU32(0).UpdateU64(9).UpdateU32(1).UpdateU32(0xE3069283u);
  EXPECT_EQ(Of("123456789").Identity(0), std::move(hash).Finish());
  EXPECT_EQ(BlockCrcs().Identity(0),
            std::move(Sha256().Update("RVUP").UpdateU32(0).UpdateU64(0).UpdateU32(0)).Finish());
}

TEST(BlockCrcs, Truncate_GoesOnAsIfTheRestHadNotBeen) {
  const std::string bytes = RandomBytes(3 * kBlock);
  BlockCrcs crcs = Of(std::string_view(bytes).substr(0, 2 * kBlock + 100));
  crcs.Truncate(1);
  EXPECT_EQ(crcs.bytes(), kBlock);
  crcs.Append(std::as_bytes(std::span(bytes).subspan(kBlock)));
  EXPECT_EQ(crcs.Identity(0), Of(bytes).Identity(0));
  crcs.Truncate(0);
  EXPECT_EQ(crcs.Identity(0), BlockCrcs().Identity(0));
}

}  // namespace
}  // namespace rivulet
