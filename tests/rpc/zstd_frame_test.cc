// zstd frames from untrusted peers: each is unpacked to its stated size, within limits, or refused.
#include "rpc/zstd_frame.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include <memory>
#include <string>
#include <string_view>

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;

constexpr size_t kMostUnpacked = 1 << 20;

std::span<const std::byte> TextBytes(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string FrameOf(std::string_view text) {
  std::string frame(ZSTD_compressBound(text.size()), '\0');
  frame.resize(ZSTD_compress(frame.data(), frame.size(), text.data(), text.size(), 1));
  return frame;
}

// As programs write them that do not know beforehand how long what they pack will be.
std::string FrameOfUnknownLength(std::string_view text) {
  const std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> context(ZSTD_createCCtx(), ZSTD_freeCCtx);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_contentSizeFlag, 0);
  std::string frame(ZSTD_compressBound(text.size()), '\0');
  frame.resize(ZSTD_compress2(context.get(), frame.data(), frame.size(), text.data(), text.size()));
  return frame;
}

StatusOr<std::string> UnpackedText(std::string_view frame, size_t most = kMostUnpacked) {
  const std::span<const std::byte> whole = TextBytes(frame);
  const std::span<const std::byte> halves[] = {whole.first(whole.size() / 2), whole.subspan(whole.size() / 2)};
  const StatusOr<grpc::Slice> slice = Unpacked(halves, most), at_once = Unpacked({&whole, 1}, most);
  EXPECT_EQ(slice.status(), at_once.status());
  RIVULET_RETURN_IF_ERROR(slice.status());
  return std::string(slice->begin(), slice->end());
}

TEST(ZstdFrameTest, Packed_IsShorterAndUnpacksToTheSame) {
  std::string text;
  while (text.size() < 983'040) text += "a model of many zeros and few others ";
  const grpc::Slice packed = ZstdFrame(TextBytes(text));
  ASSERT_GT(packed.size(), 0u);
  EXPECT_LT(packed.size(), text.size() / 100);
  EXPECT_EQ(UnpackedText({reinterpret_cast<const char*>(packed.begin()), packed.size()}).value(), text);
}

TEST(ZstdFrameTest, Longest_IsWhatIsAllowed) {
  const std::string text(1'000, 'a');
  EXPECT_EQ(UnpackedText(FrameOf(text), 1'000).value(), text);
  EXPECT_THAT(
      UnpackedText(FrameOf(text), 999),
      StatusIs(absl::StatusCode::kDataLoss, "a compressed chunk claims 1000 bytes, and at most 999 are allowed"));
}

// A frame of 30 KB that would be a gibibyte.
TEST(ZstdFrameTest, Bomb_IsRefusedByWhatItSays) {
  const std::string frame = [] {
    const std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> context(ZSTD_createCCtx(), ZSTD_freeCCtx);
    constexpr unsigned long long kLength = 1 << 30;
    ZSTD_CCtx_setPledgedSrcSize(context.get(), kLength);
    std::string out(1 << 20, '\0');
    const std::string zeros(1 << 20, '\0');
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    for (unsigned long long sent = 0; sent < kLength; sent += zeros.size()) {
      ZSTD_inBuffer from{zeros.data(), zeros.size(), 0};
      const bool last = sent + zeros.size() == kLength;
      while (ZSTD_compressStream2(context.get(), &to, &from, last ? ZSTD_e_end : ZSTD_e_continue) > 0 && last) {
      }
    }
    out.resize(to.pos);
    return out;
  }();
  EXPECT_LT(frame.size(), 100'000u);
  EXPECT_THAT(UnpackedText(frame),
              StatusIs(absl::StatusCode::kDataLoss,
                       "a compressed chunk claims 1073741824 bytes, and at most 1048576 are allowed"));
}

// The length stands behind the magic number and a byte of flags, which say that it takes two bytes.
TEST(ZstdFrameTest, MoreThanItSays_IsRefused) {
  std::string frame = FrameOf(std::string(1'000, 'a'));
  ASSERT_EQ(UnpackedText(frame).value(), std::string(1'000, 'a'));
  const size_t length_at = 5;
  for (const int less : {1, 100}) {
    std::string liar = frame;
    ASSERT_GE(static_cast<uint8_t>(liar[length_at]), less);
    liar[length_at] = static_cast<char>(static_cast<uint8_t>(liar[length_at]) - less);
    EXPECT_THAT(UnpackedText(liar), StatusIs(absl::StatusCode::kDataLoss)) << less;
  }
  std::string liar = frame;
  liar[length_at + 1] = static_cast<char>(liar[length_at + 1] + 1);
  EXPECT_THAT(UnpackedText(liar), StatusIs(absl::StatusCode::kDataLoss)) << "and so is less";
}

TEST(ZstdFrameTest, WithoutItsLength_IsRefused) {
  EXPECT_THAT(UnpackedText(FrameOfUnknownLength("some text")),
              StatusIs(absl::StatusCode::kDataLoss, "a compressed chunk does not state its length"));
}

TEST(ZstdFrameTest, SeveralFrames_AreRefused) {
  const std::string one = FrameOf("one"), skippable("\x50\x2a\x4d\x18\x03\x00\x00\x00xyz", 11);
  const std::string why = "a compressed chunk is cut off, or there is more than one frame in it";
  EXPECT_THAT(UnpackedText(one + FrameOf("")), StatusIs(absl::StatusCode::kDataLoss, why));
  EXPECT_THAT(UnpackedText(one + one), StatusIs(absl::StatusCode::kDataLoss, why));
  EXPECT_THAT(UnpackedText(one + skippable), StatusIs(absl::StatusCode::kDataLoss, why));
  EXPECT_THAT(UnpackedText(skippable + one), StatusIs(absl::StatusCode::kDataLoss, why));
}

TEST(ZstdFrameTest, NoFrame_IsRefused) {
  for (const std::string& bytes : {std::string(), std::string("a"), std::string("no frame of zstd at all"),
                                   std::string("\x28\xb5\x2f\xfd", 4), std::string(1'000, '\0')}) {
    EXPECT_THAT(UnpackedText(bytes), StatusIs(absl::StatusCode::kDataLoss)) << bytes.size();
  }
}

// Each beginning of a frame is refused, and each bit that is turned over gives no more than was allowed.
TEST(ZstdFrameTest, Damaged_IsRefusedOrWithinItsLength) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += std::to_string(i * i) + ",";
  const std::string frame = FrameOf(text);
  for (size_t size = 0; size < frame.size(); ++size) {
    EXPECT_THAT(UnpackedText(frame.substr(0, size)), StatusIs(absl::StatusCode::kDataLoss)) << size;
  }
  int refused = 0;
  for (size_t bit = 0; bit < 8 * frame.size(); ++bit) {
    std::string damaged = frame;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const StatusOr<std::string> unpacked = UnpackedText(damaged, text.size());
    EXPECT_LE(unpacked.ok() ? unpacked->size() : 0, text.size());
    refused += !unpacked.ok();
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace rivulet
