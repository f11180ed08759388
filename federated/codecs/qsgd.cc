// "qsgd2", "qsgd4" and "qsgd8": 2, 4 or 8 bits a value, rounded stochastically to levels of the block's norm (QSGD,
// Alistarh et al. 2017, arXiv:1610.02132, section 3.1, with levels of fixed width instead of Elias' codes). With b bits
// there are s = 2^(b − 1) − 1 levels on either side of zero: 1, 7 and 127. A block of 256 values, the last with the
// remaining ones, is, little-endian:
//
//   norm f32 ‖x‖₂ of the block, rounded up; 0 if that is not a normal number (< 2^-126)
//   level  ub[values]  q + 2^(b − 1) with q = ⌊s · x / ‖x‖ + u⌋, u uniform on [0, 1): −s .. s; the first in the lowest
//   bits
//
// A value decodes to ‖x‖ · q / s. It is unbiased, with an error of E‖Q(x) − x‖² ≤ min(n / s², √n / s) · ‖x‖² for the n
// values of a block (lemma 3.1). Unused bits of the last byte hold the code of zero. "int4" and "int8" scale by the
// largest magnitude instead. Compared with them, the bound is the paper's, and the error is larger.
#include "federated/codecs/qsgd.h"

#include <algorithm>
#include <array>

#include "federated/codecs/codec.h"
#include "federated/codecs/each_block.h"
#include "federated/codecs/scaled_blocks.h"
#include "federated/settings/traits.h"

namespace rivulet {
namespace {

template <int kBits>
class Qsgd final : public Codec {
 public:
  static constexpr int kZero = 1 << (kBits - 1), kLevels = kZero - 1, kInByte = 8 / kBits;
  using Blocks = ScaledBlocks<kQsgdValues, kInByte>;

  explicit Qsgd(int64_t elements) : elements_(elements), bytes_(Blocks::BytesOf(elements)) {}
  int64_t MaxBytes() const override { return bytes_; }

  void Encode(std::span<const FloatRun> values, Draws& draws, std::string& out) const override {
    out.reserve(out.size() + static_cast<size_t>(bytes_));
    std::array<float, kQsgdValues> block;
    EachBlock(values, block, [&](std::span<const float> x) {
      const float norm = QsgdNorm(x);
      out.append(reinterpret_cast<const char*>(&norm), sizeof(norm));
      const auto level = [&](size_t i) {
        if (i >= x.size() || !(norm > 0)) return kZero;  // unused bits, zeros or NaN
        return QsgdLevel(x[i], norm, kLevels, draws) + kZero;
      };
      for (size_t i = 0; i < x.size(); i += kInByte) {
        int byte = 0;
        for (int k = 0; k < kInByte; ++k) byte |= level(i + static_cast<size_t>(k)) << (k * kBits);
        out.push_back(static_cast<char>(byte));
      }
    });
  }

  Status Check(std::span<const std::byte> bytes) const override {
    if (std::ssize(bytes) != bytes_) {
      return InvalidArgument("it has {} bytes where {} qsgd{} elements have {}", bytes.size(), elements_, kBits,
                             bytes_);
    }
    const auto bad = Blocks::FindBad(bytes, elements_, [](std::byte byte) {
      bool none = false;
      for (int k = 0; k < kInByte; ++k) none |= CodeIn(byte, k) == 0;
      return none;
    });
    if (!bad) return absl::OkStatus();
    return InvalidArgument("its block of the values from {} on has a norm of {} or a level of -{}", bad->first,
                           bad->scale, kZero);
  }

  void Decode(std::span<const std::byte> bytes, int64_t first, std::span<float> out) const override {
    for (size_t i = 0; i < out.size(); ++i) {
      const int64_t at = first + static_cast<int64_t>(i);
      const auto [block, norm, levels] = Blocks::BlockOf(bytes, at);
      const int64_t within = at - block;
      const int level = CodeIn(levels[within / kInByte], static_cast<int>(within % kInByte)) - kZero;
      out[i] = QsgdValue(norm, level, kLevels);
    }
  }

 private:
  static int CodeIn(std::byte byte, int k) { return std::to_integer<int>(byte) >> (k * kBits) & ((1 << kBits) - 1); }

  const int64_t elements_, bytes_;
};

template <int kBits>
std::unique_ptr<const Codec> CreateQsgd(int64_t elements) {
  return std::make_unique<Qsgd<kBits>>(elements);
}

constexpr char kQsgdDoc[] = "so many bits a value, rounded by chance to levels of the norm of each 256";
RIVULET_CODEC("qsgd2", kQsgdDoc, CreateQsgd<2>, {kSendsWholeModels});
RIVULET_CODEC("qsgd4", kQsgdDoc, CreateQsgd<4>, {kSendsWholeModels});
RIVULET_CODEC("qsgd8", kQsgdDoc, CreateQsgd<8>, {kSendsWholeModels});

}  // namespace
}  // namespace rivulet
