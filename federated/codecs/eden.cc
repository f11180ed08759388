// "eden1" … "eden4": one to four bits a value (EDEN, Vargaftik et al. 2022, arXiv:2108.08842; with one bit DRIVE's,
// arXiv:2105.08339). A random rotation R makes any values look like draws from a normal distribution, for which the
// best levels c are known; a scale makes the mean over rotations right. Of a block x of n values, padded with zeros to
// n = 2^m:
//
//   y = R x = H D₂ H D₁ x / n        D: random signs, H: Walsh and Hadamard's matrix
//   q_i: the level that is nearest to √n · y_i / ‖x‖,  S = ‖x‖² / Σ_i y_i c(q_i)
//   x̂ = D₁ H D₂ H (S · c(q)) / n
//
// The error ‖x̂ − x‖² / ‖x‖² is 0.571, 0.133, 0.0358 and 0.0096 for 1, 2, 3 and 4 bits. A rotation by H D alone would
// leave traces of a few values that are much larger than all others in y, and would bias the mean: for one value of 3
// among a thousand of 0.1, the error is twenty times that of chance. Blocks have 2^16 values, as in the papers' own
// programs. The remaining values form blocks of the largest power of two that fits, down to 4096. Only the last block
// is padded, so padding never costs more than 4095 values.
//
// An aggregation decodes fewer values at a time than a block has. Each thread caches its last decoded block, 256 KiB of
// values and the encoded bytes that identify it. So each block is decoded once for all its values, in bounded memory.
//
// Little-endian:
//
//   seed u64 of all random signs
//   then for each block:
//   scale  f32             S / n; 0 where that is no normal number (< 2^-126)
//   level  u{bits}[n]      q, from the lowest to the highest level; the first in the lowest bits
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "federated/codecs/block_scale.h"
#include "federated/codecs/codec.h"
#include "federated/codecs/eden_levels.h"
#include "federated/codecs/float_run.h"
#include "federated/settings/traits.h"

namespace rivulet {
namespace {

static_assert(std::endian::native == std::endian::little, "scales travel as they are in memory");

constexpr int64_t kEdenValues = 65536, kLeastWhole = 4096;

// Replaces values that are `half` apart by their sums and differences, for each half from `first` on.
void Butterflies(std::span<float> x, size_t first) {
  for (size_t half = first; half < x.size(); half *= 2) {
    for (size_t begin = 0; begin < x.size(); begin += 2 * half) {
      for (size_t i = begin; i < begin + half; ++i) {
        const float a = x[i], b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
    }
  }
}

// x ← H x for a power of two, by sums and differences alone, so that every machine rounds alike. Neighbours are added
// first, in pieces that fit the fastest cache.
void Hadamard(std::span<float> x) {
  const size_t part = std::min<size_t>(x.size(), kLeastWhole);
  for (size_t begin = 0; begin < x.size(); begin += part) Butterflies(x.subspan(begin, part), 1);
  Butterflies(x, part);
}

// Position of a block in its part, and its length when it is sent.
struct EdenPlace {
  int64_t number = 0, first = 0;  // index of the block; index of its first value
  int64_t values = 0, padded = 0;
  int64_t offset = 0;  // of its first byte
};

// The block that a thread decoded last, with its bytes: the same bytes at the same place decode to the same values.
struct UndoneBlock {
  uint64_t seed = 0;
  int64_t number = -1;
  int bits = 0;
  std::vector<std::byte> bytes;
  std::vector<float> values;
};

// x ← D x, with the signs of block `block` for rotation number `turn`.
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
  Eden(int64_t elements, int bits) : elements_(elements), bits_(bits), levels_(EdenLevels(bits)), bytes_(kSeedBytes) {
    if (elements > 0) {
      const EdenPlace last = PlaceOf(elements - 1);
      bytes_ = last.offset + BlockBytes(last.padded);
    }
  }
  int64_t MaxBytes() const override { return bytes_; }

  void Encode(std::span<const FloatRun> values, Draws& draws, std::string& out) const override {
    const uint64_t seed = draws.Word64();
    const size_t begin = out.size();
    out.resize(begin + static_cast<size_t>(bytes_));
    std::memcpy(out.data() + begin, &seed, sizeof(seed));
    if (elements_ == 0) return;
    EdenPlace place = PlaceOf(0);
    std::vector<float> block(static_cast<size_t>(place.padded));
    size_t filled = 0;
    EachValue(values, [&](float value) {
      block[filled++] = value;
      if (static_cast<int64_t>(filled) < place.values) return;
      EncodeBlock(seed, place.number, block, out.data() + begin + static_cast<size_t>(place.offset));
      if (place.first + place.values == elements_) return;
      place = PlaceOf(place.first + place.values);
      block.assign(static_cast<size_t>(place.padded), 0.0f);
      filled = 0;
    });
  }

  Status Check(std::span<const std::byte> bytes) const override {
    if (std::ssize(bytes) != bytes_) {
      return InvalidArgument("it has {} bytes where {} elements in {} bits have {}", bytes.size(), elements_, bits_,
                             bytes_);
    }
    for (int64_t first = 0; first < elements_;) {
      const EdenPlace place = PlaceOf(first);
      float scale = 0;
      std::memcpy(&scale, bytes.data() + place.offset, sizeof(scale));
      if (!IsNormalScale(scale))
        return InvalidArgument("its block of the values from {} on has a scale of {}", first, scale);
      first += place.values;
    }
    return absl::OkStatus();
  }

  void Decode(std::span<const std::byte> bytes, int64_t first, std::span<float> out) const override {
    uint64_t seed = 0;
    std::memcpy(&seed, bytes.data(), sizeof(seed));
    for (size_t i = 0; i < out.size();) {
      const int64_t at = first + static_cast<int64_t>(i);
      const EdenPlace place = PlaceOf(at);
      const auto within = static_cast<size_t>(at - place.first);
      const size_t count = std::min(out.size() - i, static_cast<size_t>(place.values) - within);
      const std::span<const float> block = Undone(
          seed, place, bytes.subspan(static_cast<size_t>(place.offset), static_cast<size_t>(BlockBytes(place.padded))));
      std::ranges::copy(block.subspan(within, count), out.begin() + static_cast<std::ptrdiff_t>(i));
      i += count;
    }
  }

 private:
  static constexpr int64_t kSeedBytes = sizeof(uint64_t);

  int64_t BlockBytes(int64_t padded) const { return static_cast<int64_t>(sizeof(float)) + (padded * bits_ + 7) / 8; }

  // Returns the block that holds value `at` of the part. Full blocks come first, then shorter ones, the longest first.
  EdenPlace PlaceOf(int64_t at) const {
    const int64_t whole = elements_ / kEdenValues, number = std::min(at / kEdenValues, whole);
    EdenPlace place{.number = number,
                    .first = number * kEdenValues,
                    .values = kEdenValues,
                    .padded = kEdenValues,
                    .offset = kSeedBytes + number * BlockBytes(kEdenValues)};
    while (place.number >= whole) {
      const int64_t left = elements_ - place.first;
      const int64_t longest = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(left)));
      place.values = longest < kLeastWhole ? left : longest;
      place.padded = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(place.values)));
      if (at < place.first + place.values) break;
      place.first += place.values;
      place.offset += BlockBytes(place.padded);
      ++place.number;
    }
    return place;
  }

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
      const size_t level = square > 0 ? Nearest(static_cast<double>(x[i]) / unit) : 0;  // any level for NaN
      product += static_cast<double>(x[i]) * static_cast<double>(levels_[level]);
      PutLevel(level, i, out + sizeof(float));
    }
    // S / n, computed from n · y. Zero for a block of zeros; not finite if a value is not, so the block is refused.
    float scale = 0;
    if (!(square == 0)) scale = NormalScale(static_cast<float>(square / product));
    if (!std::isfinite(square)) scale = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(out, &scale, sizeof(scale));
  }

  // Returns the decoded values of a block with the bytes `bytes`, valid until this thread decodes another block.
  std::span<const float> Undone(uint64_t seed, const EdenPlace& place, std::span<const std::byte> bytes) const {
    thread_local UndoneBlock last;
    const bool same = last.seed == seed && last.number == place.number && last.bits == bits_ &&
                      last.bytes.size() == bytes.size() &&
                      std::memcmp(last.bytes.data(), bytes.data(), bytes.size()) == 0;
    if (same) return last.values;
    last.seed = seed;
    last.number = place.number;
    last.bits = bits_;
    last.bytes.assign(bytes.begin(), bytes.end());
    last.values.resize(static_cast<size_t>(place.padded));
    DecodeBlock(seed, place.number, bytes.data(), last.values);
    return last.values;
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

  // A level of three bits may span two bytes.
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
  const std::array<float, 16> levels_;
  int64_t bytes_;
};

std::unique_ptr<const Codec> CreateEden1(int64_t elements) { return std::make_unique<Eden>(elements, 1); }
std::unique_ptr<const Codec> CreateEden2(int64_t elements) { return std::make_unique<Eden>(elements, 2); }
std::unique_ptr<const Codec> CreateEden3(int64_t elements) { return std::make_unique<Eden>(elements, 3); }
std::unique_ptr<const Codec> CreateEden4(int64_t elements) { return std::make_unique<Eden>(elements, 4); }

constexpr char kEdenDoc[] = "so many bits a value, rotated at random and rounded as is best for normal numbers";
RIVULET_CODEC("eden1", kEdenDoc, CreateEden1, {kSendsWholeModels, kMayChangeSigns});
RIVULET_CODEC("eden2", kEdenDoc, CreateEden2, {kSendsWholeModels, kMayChangeSigns});
RIVULET_CODEC("eden3", kEdenDoc, CreateEden3, {kSendsWholeModels, kMayChangeSigns});
RIVULET_CODEC("eden4", kEdenDoc, CreateEden4, {kSendsWholeModels, kMayChangeSigns});

}  // namespace
}  // namespace rivulet
