#include "engine/io/crc32c.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rivulet {
namespace {

std::span<const std::byte> Bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

// RFC 3720, appendix B.4.
TEST(Crc32c, PublishedVectors_AreMet) {
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  std::string ascending, descending;
  for (int i = 0; i < 32; ++i) ascending.push_back(static_cast<char>(i));
  for (int i = 31; i >= 0; --i) descending.push_back(static_cast<char>(i));
  EXPECT_EQ(Crc32c(ascending), 0x46DD794Eu);
  EXPECT_EQ(Crc32c(descending), 0x113FDB5Cu);
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(""), 0u);
}

TEST(Crc32c, TwoHalves_GiveTheCrcOfTheWhole) {
  const std::string text = "many private streams, one river";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(ExtendCrc32c(Crc32c(text.substr(0, cut)), Bytes(std::string_view(text).substr(cut))), Crc32c(text))
        << cut;
  }
}

// Every length up to two blocks of an MNIST record, and some around the longest block, at every alignment.
void ExpectLikePortable(uint32_t (*extend)(uint32_t crc, std::span<const std::byte> bytes)) {
  std::string text;
  uint64_t state = 7;
  for (int i = 0; i < 20000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    text.push_back(static_cast<char>(state >> 56));
  }
  std::vector<size_t> lengths = {6143, 6144, 6145, 6167, 6168, 7000, 12287, 12288, 19990};
  for (size_t length = 0; length < 900; ++length) lengths.push_back(length);
  for (const size_t length : lengths) {
    for (size_t offset = 0; offset < 9; ++offset) {
      const auto bytes = Bytes(std::string_view(text).substr(offset, length));
      EXPECT_EQ(extend(0x12345678u, bytes), internal::ExtendCrc32cPortable(0x12345678u, bytes))
          << length << " at " << offset;
    }
  }
}
TEST(Crc32c, HardwareAndPortable_Agree) {
  if (!internal::HasCrc32cInstruction()) GTEST_SKIP() << "this machine has no CRC-32C instruction";
  ExpectLikePortable(internal::ExtendCrc32cHardware);
}
TEST(Crc32c, WideAndPortable_Agree) {
  if (!internal::HasWideProducts()) GTEST_SKIP() << "this machine has no carry-less products of 512 bits";
  ExpectLikePortable(internal::ExtendCrc32cWide);
}

}  // namespace
}  // namespace rivulet
