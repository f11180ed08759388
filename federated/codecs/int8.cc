// "int8": eight bits a value, rounded stochastically so that the expected value is the value itself (QSGD, Alistarh et
// al. 2017, arXiv:1610.02132, with 127 levels and the largest magnitude of each block instead of its norm). A block of
// 256 values, the last with the remaining ones, is, little-endian:
//
//   scale f32 s: the largest magnitude / 127, rounded up; 0 if that is not a normal number (< 2^-126)
//   level  i8[values]  q = ⌊value / s + u⌋, u uniform on [0, 1): −127 .. 127
//
// A value decodes to s · q, with a variance of at most s² / 4. Example, 127, -0.5, 0: 00 00 80 3f, 7f, 00 or ff, 00.
#include <algorithm>
#include <array>
#include <cmath>

#include "federated/codecs/block_scale.h"
#include "federated/codecs/codec.h"
#include "federated/codecs/each_block.h"
#include "federated/codecs/scaled_blocks.h"
#include "federated/settings/traits.h"

namespace rivulet {
namespace {

constexpr int64_t kBlockValues = 256;
using Int8Blocks = ScaledBlocks<kBlockValues, 1>;
constexpr double kInt8Levels = 127;

class Int8 final : public Codec {
 public:
  explicit Int8(int64_t elements) : elements_(elements), bytes_(Int8Blocks::BytesOf(elements)) {}
  int64_t MaxBytes() const override { return bytes_; }

  void Encode(std::span<const FloatRun> values, Draws& draws, std::string& out) const override {
    out.reserve(out.size() + static_cast<size_t>(bytes_));
    std::array<float, kBlockValues> block;
    EachBlock(values, block, [&](std::span<const float> x) {
      const float scale = BlockScale(x, kInt8Levels);
      out.append(reinterpret_cast<const char*>(&scale), sizeof(scale));
      for (const float value : x) {
        const bool plain = scale > 0;  // neither zeros nor NaN
        const double level = plain ? std::floor(static_cast<double>(value) / scale + draws.Uniform()) : 0;
        out.push_back(static_cast<char>(static_cast<int8_t>(level)));
      }
    });
  }

  Status Check(std::span<const std::byte> bytes) const override {
    if (std::ssize(bytes) != bytes_) {
      return InvalidArgument("it has {} bytes where {} int8 elements have {}", bytes.size(), elements_, bytes_);
    }
    const auto bad = Int8Blocks::FindBad(bytes, elements_, [](std::byte level) { return level == std::byte{0x80}; });
    if (!bad) return absl::OkStatus();
    return InvalidArgument("its block of the values from {} on has a scale of {} or a level of -128", bad->first,
                           bad->scale);
  }

  void Decode(std::span<const std::byte> bytes, int64_t first, std::span<float> out) const override {
    for (size_t i = 0; i < out.size();) {
      const int64_t at = first + static_cast<int64_t>(i);
      const auto [block, scale, levels] = Int8Blocks::BlockOf(bytes, at);
      const size_t end = std::min(out.size(), i + static_cast<size_t>(block + kBlockValues - at));
      for (const std::byte* level = levels + (at - block); i < end; ++i, ++level) {
        out[i] = scale * static_cast<float>(static_cast<int8_t>(*level));
      }
    }
  }

 private:
  const int64_t elements_, bytes_;
};

std::unique_ptr<const Codec> CreateInt8(int64_t elements) { return std::make_unique<Int8>(elements); }

RIVULET_CODEC("int8", "a quarter of the bytes, rounded by chance to levels of the largest of each 256", CreateInt8,
              {kSendsWholeModels});

}  // namespace
}  // namespace rivulet
