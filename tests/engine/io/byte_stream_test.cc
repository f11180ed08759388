#include "engine/io/byte_stream.h"

#include <initializer_list>
#include <vector>

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

Compression Detected(std::initializer_list<int> head) {
  std::vector<std::byte> bytes;
  for (const int byte : head) bytes.push_back(static_cast<std::byte>(byte));
  return DetectCompression(bytes);
}

TEST(DetectCompression, GzipsHead_IsMagicMethodAndNoReservedFlag) {
  EXPECT_EQ(Detected({0x1F, 0x8B, 8, 0}), Compression::kGzip);
  EXPECT_EQ(Detected({0x1F, 0x8B, 8, 0x1F}), Compression::kGzip);
  EXPECT_EQ(Detected({0x1F, 0x8B, 8, 0x20}), Compression::kNone);
  EXPECT_EQ(Detected({0x1F, 0x8B, 7, 0}), Compression::kNone);
  EXPECT_EQ(Detected({0x1F, 0x8B, 8}), Compression::kNone);
}

// What zlib writes at its four kinds of levels, and with the least window.
TEST(DetectCompression, ZlibsHead_IsMethodWindowAndACheckModulo31) {
  for (const auto& [first, second] : {std::pair(0x78, 0x01), {0x78, 0x5E}, {0x78, 0x9C}, {0x78, 0xDA}, {0x08, 0x1D}}) {
    EXPECT_EQ(Detected({first, second}), Compression::kZlib) << first << " " << second;
  }
  EXPECT_EQ(Detected({0x78, 0x9D}), Compression::kNone);  // the check is wrong
  EXPECT_EQ(Detected({0x78, 0xBB}), Compression::kNone);  // a dictionary that nobody has
  EXPECT_EQ(Detected({0x88, 0x1C}), Compression::kNone);  // a window of 64 KiB
  EXPECT_EQ(Detected({0x79, 0x1C}), Compression::kNone);  // another method
  EXPECT_EQ(Detected({0x78}), Compression::kNone);
  EXPECT_EQ(Detected({}), Compression::kNone);
}

}  // namespace
}  // namespace rivulet
