// "eden1" … "eden4": one to four bits a value (EDEN, Vargaftik et al. 2022, arXiv:2108.08842; with one bit DRIVE's,
// arXiv:2105.08339). A random rotation R makes any values look like draws from a normal distribution, for which the
// best levels c are known; a scale makes the mean over rotations right. Of a block x of n values, padded with zeros to
// n = 2^m:
//
//   y = R x = H D₂ H D₁ x / n        D: random signs, H: Walsh and Hadamard's matrix
//   q_i: the level that is nearest to √n · y_i / ‖x‖,  S = ‖x‖² / Σ_i y_i c(q_i)
//   x̂ = D₁ H D₂ H (S · c(q)) / n
//
// whose error ‖x̂ − x‖² / ‖x‖² is 0.571, 0.133, 0.0358 and 0.0096 of 1, 2, 3 and 4 bits. A rotation by H D alone would
// leave a few values that are much larger than all others to be seen in y, and then the mean is not right: of one value
// of 3 among a thousand of 0.1, twenty times the error that chance explains. Blocks have 4096 values, what is folded at
// a time, so that a rotation is undone where its values are used. Little-endian:
//
//   seed   u64             of all signs
//   then for each block:
//   scale  f32             S / n; 0 where that is no normal number (< 2^-126)
//   level  u{bits}[n]      q, from the lowest to the highest level; the first in the lowest bits
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "federated/codecs/block_scale.h"
#include "federated/codecs/codec.h"
#include "federated/codecs/each_block.h"

namespace rivulet {
namespace {

static_assert(std::endian::native == std::endian::little, "scales travel as they lie in memory");

constexpr int64_t kEdenValues = 4096;

// The levels above zero that a normal distribution is best rounded to (Lloyd 1982, Max 1960), and as far below.
constexpr float kEdenLevels[4][8] = {
    {0.79788456f},
    {0.45278003f, 1.5104176f},
    {0.24509418f, 0.75600528f, 1.3439093f, 2.1519457f},
    {0.12839503f, 0.38804830f, 0.65675912f, 0.94234046f, 1.2562312f, 1.6180464f, 2.0690172f, 2.7325896f}};

using EdenBlock = std::array<float, kEdenValues>;

// x ← H x, of a power of two: sums and differences alone, so that every machine rounds alike.
void Hadamard(std::span<float> x) {
  for (size_t half = 1; half < x.size(); half *= 2) {
    for (size_t begin = 0; begin < x.size(); begin += 2 * half) {
      for (size_t i = begin; i < begin + half; ++i) {
        const float a = x[i], b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
    }
  }
}

// x ← D x, with the signs of block `block` in rotation `turn`.
void TurnSigns(uint64_t seed, int64_t block, uint32_t turn, std::span<float> x) {
  const PhiloxKey key{{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}};
  for (size_t i = 0; i < x.size(); i += 128) {
    const PhiloxBlock words = Philox4x32(key, {static_cast<uint32_t>(i / 128), turn, static_cast<uint32_t>(block),
                                               static_cast<uint32_t>(static_cast<uint64_t>(block) >> 32)});
    for (size_t k = i; k < std::min(x.size(), i + 128); ++k) {
      const uint32_t minus = words[(k - i) / 32] >> (k % 32) & 1;
      x[k] = std::bit_cast<float>(std::bit_cast<uint32_t>(x[k]) ^ minus << 31);
    }
  }
}

class Eden final : public Codec {
 public:
  Eden(int64_t elements, int bits) : elements_(elements), bits_(bits), bytes_(kSeedBytes) {
    const auto above = static_cast<size_t>(1) << (bits - 1);
    for (size_t i = 0; i < above; ++i) {
      const float level = kEdenLevels[bits - 1][i];
      levels_[above + i] = level;
      levels_[above - 1 - i] = -level;
    }
    for (int64_t first = 0; first < elements; first += kEdenValues) bytes_ += BlockBytes(PaddedFrom(first));
  }
  int64_t MaxBytes() const override { return bytes_; }

  void Encode(std::span<const FloatRun> values, Draws& draws, std::string& out) const override {
    const uint64_t seed = draws.Word64();
    size_t at = out.size();
    out.resize(at + static_cast<size_t>(bytes_));
    std::memcpy(out.data() + at, &seed, sizeof(seed));
    at += sizeof(seed);
    EdenBlock block;
    int64_t first = 0;
    EachBlock(values, block, [&](std::span<const float> x) {
      const auto padded = static_cast<size_t>(PaddedFrom(first));
      std::fill(block.begin() + std::ssize(x), block.end(), 0.0f);
      EncodeBlock(seed, first / kEdenValues, std::span(block).first(padded), out.data() + at);
      at += static_cast<size_t>(BlockBytes(static_cast<int64_t>(padded)));
      first += kEdenValues;
    });
  }

  Status Check(std::span<const std::byte> bytes) const override {
    if (std::ssize(bytes) != bytes_) {
      return InvalidArgument("it has {} bytes where {} elements in {} bits have {}", bytes.size(), elements_, bits_,
                             bytes_);
    }
    for (int64_t first = 0; first < elements_; first += kEdenValues) {
      float scale = 0;
      std::memcpy(&scale, bytes.data() + OffsetOf(first), sizeof(scale));
      if (!IsNormalScale(scale))
        return InvalidArgument("its block of the values from {} on has a scale of {}", first, scale);
    }
    return absl::OkStatus();
  }

  void Decode(std::span<const std::byte> bytes, int64_t first, std::span<float> out) const override {
    uint64_t seed = 0;
    std::memcpy(&seed, bytes.data(), sizeof(seed));
    EdenBlock block;
    for (size_t i = 0; i < out.size();) {
      const int64_t at = first + static_cast<int64_t>(i), begin = at / kEdenValues * kEdenValues;
      const auto within = static_cast<size_t>(at - begin);
      const size_t count = std::min(out.size() - i, block.size() - within);
      const std::span<float> padded = std::span(block).first(static_cast<size_t>(PaddedFrom(begin)));
      DecodeBlock(seed, begin / kEdenValues, bytes.data() + OffsetOf(begin), padded);
      std::copy_n(block.begin() + static_cast<std::ptrdiff_t>(within), count,
                  out.begin() + static_cast<std::ptrdiff_t>(i));
      i += count;
    }
  }

 private:
  static constexpr int64_t kSeedBytes = sizeof(uint64_t);

  int64_t PaddedFrom(int64_t first) const {
    return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::min(kEdenValues, elements_ - first))));
  }
  int64_t BlockBytes(int64_t padded) const { return static_cast<int64_t>(sizeof(float)) + (padded * bits_ + 7) / 8; }
  // `first`: of the block's values. All blocks before it are whole.
  int64_t OffsetOf(int64_t first) const { return kSeedBytes + first / kEdenValues * BlockBytes(kEdenValues); }

  void EncodeBlock(uint64_t seed, int64_t block, std::span<float> x, char* out) const {
    double square = 0;
    for (const float value : x) square += static_cast<double>(value) * value;
    TurnSigns(seed, block, 0, x);
    Hadamard(x);
    TurnSigns(seed, block, 1, x);
    Hadamard(x);  // n · y
    const double unit = std::sqrt(square) * std::sqrt(static_cast<double>(x.size()));
    double product = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t level = square > 0 ? Nearest(static_cast<double>(x[i]) / unit) : 0;  // NaN's is any
      product += static_cast<double>(x[i]) * static_cast<double>(levels_[level]);
      PutLevel(level, i, out + sizeof(float));
    }
    // S / n, with n · y for y. Of zeros zero; of what is no number none, so that the block is refused.
    float scale = 0;
    if (!(square == 0)) scale = NormalScale(static_cast<float>(square / product));
    if (!std::isfinite(square)) scale = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(out, &scale, sizeof(scale));
  }

  void DecodeBlock(uint64_t seed, int64_t block, const std::byte* bytes, std::span<float> x) const {
    float scale = 0;
    std::memcpy(&scale, bytes, sizeof(scale));
    for (size_t i = 0; i < x.size(); ++i) x[i] = levels_[LevelAt(i, bytes + sizeof(scale))];
    Hadamard(x);
    TurnSigns(seed, block, 1, x);
    Hadamard(x);
    TurnSigns(seed, block, 0, x);
    for (float& value : x) value *= scale;
  }

  size_t Nearest(double value) const {
    size_t level = 0;
    const size_t last = (size_t{1} << bits_) - 1;
    while (level < last && value > (static_cast<double>(levels_[level]) + levels_[level + 1]) / 2) ++level;
    return level;
  }

  // A level of three bits may lie in two bytes.
  void PutLevel(size_t level, size_t i, char* out) const {
    const size_t bit = i * static_cast<size_t>(bits_), shifted = level << bit % 8;
    out[bit / 8] = static_cast<char>(static_cast<unsigned char>(out[bit / 8]) | (shifted & 0xFF));
    if (shifted > 0xFF) out[bit / 8 + 1] = static_cast<char>(shifted >> 8);
  }
  size_t LevelAt(size_t i, const std::byte* bytes) const {
    const size_t bit = i * static_cast<size_t>(bits_), within = bit % 8, mask = (size_t{1} << bits_) - 1;
    size_t found = std::to_integer<size_t>(bytes[bit / 8]) >> within;
    if (within + static_cast<size_t>(bits_) > 8) found |= std::to_integer<size_t>(bytes[bit / 8 + 1]) << (8 - within);
    return found & mask;
  }

  const int64_t elements_;
  const int bits_;
  int64_t bytes_;
  std::array<float, 16> levels_ = {};
};

std::unique_ptr<const Codec> CreateEden1(int64_t elements) { return std::make_unique<Eden>(elements, 1); }
std::unique_ptr<const Codec> CreateEden2(int64_t elements) { return std::make_unique<Eden>(elements, 2); }
std::unique_ptr<const Codec> CreateEden3(int64_t elements) { return std::make_unique<Eden>(elements, 3); }
std::unique_ptr<const Codec> CreateEden4(int64_t elements) { return std::make_unique<Eden>(elements, 4); }

RIVULET_CODEC("eden1", CreateEden1);
RIVULET_CODEC("eden2", CreateEden2);
RIVULET_CODEC("eden3", CreateEden3);
RIVULET_CODEC("eden4", CreateEden4);

}  // namespace
}  // namespace rivulet
