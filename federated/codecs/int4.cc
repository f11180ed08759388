// "int4": four bits a value, rounded stochastically so that the expected value is the value itself, as "int8" with 7
// levels (QSGD, Alistarh et al. 2017, arXiv:1610.02132, with the largest magnitude of each block instead of its norm).
// A block of 64 values, the last with the remaining ones, is, little-endian:
//
//   scale f32 s: the largest magnitude / 7, rounded up; 0 if that is not a normal number (< 2^-126)
//   level  u4[values]        q + 8 with q = ⌊value / s + u⌋, u uniform on [0, 1): 1 .. 15; the first in the low half
//
// A value decodes to s · q, with a variance of at most s² / 4. An unused half of the last byte is 8. Example, 7 and
// -0.5: 00 00 80 3f, 7f or 8f.
#include <array>
#include <cmath>

#include "federated/codecs/block_scale.h"
#include "federated/codecs/codec.h"
#include "federated/codecs/each_block.h"
#include "federated/codecs/scaled_blocks.h"
#include "federated/settings/traits.h"

namespace rivulet {
namespace {

constexpr int64_t kInt4Values = 64;
using Int4Blocks = ScaledBlocks<kInt4Values, 2>;
constexpr double kInt4Levels = 7;
constexpr uint8_t kInt4Zero = 8;

class Int4 final : public Codec {
 public:
  explicit Int4(int64_t elements) : elements_(elements), bytes_(Int4Blocks::BytesOf(elements)) {}
  int64_t MaxBytes() const override { return bytes_; }

  void Encode(std::span<const FloatRun> values, Draws& draws, std::string& out) const override {
    out.reserve(out.size() + static_cast<size_t>(bytes_));
    std::array<float, kInt4Values> block;
    EachBlock(values, block, [&](std::span<const float> x) {
      const float scale = BlockScale(x, kInt4Levels);
      out.append(reinterpret_cast<const char*>(&scale), sizeof(scale));
      const auto level = [&](size_t i) {
        if (i >= x.size() || !(scale > 0)) return kInt4Zero;  // unused half, zeros or NaN
        const double q = std::floor(static_cast<double>(x[i]) / scale + draws.Uniform());
        return static_cast<uint8_t>(static_cast<int>(q) + kInt4Zero);
      };
      for (size_t i = 0; i < x.size(); i += 2) {
        const uint8_t low = level(i), high = level(i + 1);
        out.push_back(static_cast<char>(low | high << 4));
      }
    });
  }

  Status Check(std::span<const std::byte> bytes) const override {
    if (std::ssize(bytes) != bytes_) {
      return InvalidArgument("it has {} bytes where {} int4 elements have {}", bytes.size(), elements_, bytes_);
    }
    const auto bad = Int4Blocks::FindBad(bytes, elements_, [](std::byte two) {
      return (two & std::byte{0x0F}) == std::byte{0} || (two & std::byte{0xF0}) == std::byte{0};
    });
    if (!bad) return absl::OkStatus();
    return InvalidArgument("its block of the values from {} on has a scale of {} or a level of -8", bad->first,
                           bad->scale);
  }

  void Decode(std::span<const std::byte> bytes, int64_t first, std::span<float> out) const override {
    for (size_t i = 0; i < out.size(); ++i) {
      const int64_t at = first + static_cast<int64_t>(i);
      const auto [block, scale, levels] = Int4Blocks::BlockOf(bytes, at);
      const int64_t within = at - block;
      const int two = std::to_integer<int>(levels[within / 2]);
      out[i] = scale * static_cast<float>((within % 2 == 0 ? two & 15 : two >> 4) - kInt4Zero);
    }
  }

 private:
  const int64_t elements_, bytes_;
};

std::unique_ptr<const Codec> CreateInt4(int64_t elements) { return std::make_unique<Int4>(elements); }

RIVULET_CODEC("int4", "an eighth of the bytes, rounded by chance to levels of the largest of each 64", CreateInt4,
              {kSendsWholeModels});

}  // namespace
}  // namespace rivulet
