// "elias1", "elias7" and "elias127": QSGD's values with 1, 7 or 127 levels, equal to those of "qsgd2", "qsgd4" and
// "qsgd8" bit by bit, in the codes of its paper (Alistarh et al. 2017, arXiv:1610.02132, section 3.2 and appendix A).
// Most levels are zero, so the code holds the places and magnitudes of the others, in numbers that are shorter the
// smaller they are. Groups of 4096 values, the last with the remaining ones, can each be read separately:
//
//   ends u32[groups] for each group, the bytes of all groups up to its end; then the groups, each with
//   blocks of 256 values, the last with the remaining ones, as bits, the lowest bit of a byte first:
//     norm 32 bits as in "qsgd2"
//     for each level that is not zero: its distance from the one before (initially from −1), as γ; its sign, one bit, 1
//     if negative; its magnitude, as γ, if kLevels > 1. At last the distance to the end of the block, as γ
//   zeros up to a whole byte
//
// γ is Elias' code (1975): n > 0 with N + 1 bits is N zeros, a one, and n's lower N bits, lowest first. 1 is "1", 2
// "010", 3 "011". A block with zeros alone has 32 + 17 bits.
#include <array>
#include <cstring>
#include <vector>

#include "federated/codecs/codec.h"
#include "federated/codecs/each_block.h"
#include "federated/codecs/qsgd.h"
#include "federated/settings/traits.h"

namespace rivulet {
namespace {

constexpr int64_t kGroupValues = 16 * kQsgdValues;

int GammaBits(uint32_t n) { return 2 * std::bit_width(n) - 1; }

class BitWriter {
 public:
  explicit BitWriter(std::string& out) : out_(out) {}
  void Put(uint64_t bits, int count) {  // at most 32
    held_ |= bits << count_;
    for (count_ += count; count_ >= 8; count_ -= 8, held_ >>= 8) out_.push_back(static_cast<char>(held_ & 0xFF));
  }
  void PutGamma(uint32_t n) {
    const int lower = std::bit_width(n) - 1;
    Put(uint64_t{1} << lower, lower + 1);
    Put(n & ((uint32_t{1} << lower) - 1), lower);
  }
  void Finish() {
    if (count_ > 0) Put(0, 8 - count_);
  }

 private:
  std::string& out_;
  uint64_t held_ = 0;
  int count_ = 0;
};

// Reads zeros beyond the end, and ok() is then false.
class BitReader {
 public:
  explicit BitReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool ok() const { return ok_; }
  // Whether at most a few zero bits of the last byte remain.
  bool AtEnd() {
    const size_t left = bytes_.size() * 8 - at_;
    return ok_ && left < 8 && Take(static_cast<int>(left)) == 0;
  }
  uint32_t Take(int count) {
    uint32_t bits = 0;
    for (int i = 0; i < count; ++i) bits |= static_cast<uint32_t>(Next()) << i;
    return bits;
  }
  // Returns 0 for a code of more than 20 bits, which no valid block contains.
  uint32_t TakeGamma() {
    constexpr int kMostZeros = 9;
    int lower = 0;
    while (!Next()) {
      if (++lower > kMostZeros || !ok_) return Fail();
    }
    return uint32_t{1} << lower | Take(lower);
  }

 private:
  bool Next() {
    if (at_ >= bytes_.size() * 8) return Fail() != 0;
    const bool bit = (std::to_integer<int>(bytes_[at_ / 8]) >> (at_ % 8) & 1) != 0;
    ++at_;
    return bit;
  }
  uint32_t Fail() {
    ok_ = false;
    return 0;
  }

  const std::span<const std::byte> bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

template <int kLevels>
class EliasCoded final : public Codec {
 public:
  explicit EliasCoded(int64_t elements) : elements_(elements), groups_((elements + kGroupValues - 1) / kGroupValues) {}

  // The bound for a block without zeros, each level as large as possible.
  int64_t MaxBytes() const override {
    const int64_t blocks = (elements_ + kQsgdValues - 1) / kQsgdValues;
    const int64_t bits = blocks * (32 + 1) + elements_ * (2 + (kLevels > 1 ? GammaBits(kLevels) : 0)) + blocks * 17;
    return groups_ * (static_cast<int64_t>(sizeof(uint32_t)) + 1) + (bits + 7) / 8;
  }

  void Encode(std::span<const FloatRun> values, Draws& draws, std::string& out) const override {
    const size_t index = out.size();
    out.resize(index + static_cast<size_t>(groups_) * sizeof(uint32_t));
    const size_t begin = out.size();
    size_t group = 0;
    int64_t done = 0;
    std::array<float, kQsgdValues> block;
    BitWriter bits(out);
    EachBlock(values, block, [&](std::span<const float> x) {
      PutBlock(x, draws, bits);
      done += std::ssize(x);
      if (done % kGroupValues != 0 && done != elements_) return;
      bits.Finish();
      const auto end = static_cast<uint32_t>(out.size() - begin);
      std::memcpy(out.data() + index + group++ * sizeof(end), &end, sizeof(end));
    });
  }

  Status Check(std::span<const std::byte> bytes) const override {
    if (std::ssize(bytes) < groups_ * static_cast<int64_t>(sizeof(uint32_t))) {
      return InvalidArgument("its {} bytes end inside the index of {} groups", bytes.size(), groups_);
    }
    for (int64_t group = 0; group < groups_; ++group) {
      const uint32_t begin = EndOf(bytes, group - 1), end = EndOf(bytes, group);
      if (end < begin || end > bytes.size() - IndexBytes()) {
        return InvalidArgument("its group {} is from byte {} to {} of {}", group, begin, end,
                               bytes.size() - IndexBytes());
      }
      BitReader bits(GroupAt(bytes, group));
      const int64_t first = group * kGroupValues;
      bool whole = true;
      for (int64_t at = first; at < std::min(first + kGroupValues, elements_) && whole; at += kQsgdValues) {
        whole = SkipBlock(bits, std::min(kQsgdValues, elements_ - at));
      }
      if (!whole || !bits.AtEnd()) {
        return InvalidArgument("its group of the values from {} on is no sequence of norms and of at most {} levels",
                               first, kLevels);
      }
    }
    if (EndOf(bytes, groups_ - 1) == bytes.size() - IndexBytes()) return absl::OkStatus();
    return InvalidArgument("its {} bytes continue behind the last group", bytes.size());
  }

  void Decode(std::span<const std::byte> bytes, int64_t first, std::span<float> out) const override {
    const int64_t last = first + std::ssize(out);
    for (int64_t group = first / kGroupValues; group * kGroupValues < last; ++group) {
      BitReader bits(GroupAt(bytes, group));
      const int64_t end = std::min({(group + 1) * kGroupValues, elements_, last});
      for (int64_t at = group * kGroupValues; at < end; at += kQsgdValues) {
        TakeBlock(bits, std::min(kQsgdValues, elements_ - at), [&](int64_t place, float value) {
          if (at + place >= first && at + place < last) out[static_cast<size_t>(at + place - first)] = value;
        });
      }
    }
  }

 private:
  static void PutBlock(std::span<const float> x, Draws& draws, BitWriter& bits) {
    const float norm = QsgdNorm(x);
    bits.Put(std::bit_cast<uint32_t>(norm), 32);
    int64_t before = -1;
    for (int64_t i = 0; i < std::ssize(x) && norm > 0; ++i) {
      const int level = QsgdLevel(x[static_cast<size_t>(i)], norm, kLevels, draws);
      if (level == 0) continue;
      bits.PutGamma(static_cast<uint32_t>(i - before));
      bits.Put(level < 0 ? 1 : 0, 1);
      if (kLevels > 1) bits.PutGamma(static_cast<uint32_t>(std::abs(level)));
      before = i;
    }
    bits.PutGamma(static_cast<uint32_t>(std::ssize(x) - before));
  }

  // Returns false if the bytes are not a valid code.
  template <typename Body>
  static bool TakeBlock(BitReader& bits, int64_t values, const Body& body) {
    const auto norm = std::bit_cast<float>(bits.Take(32));
    if (!IsNormalScale(norm)) return false;
    const float zero = QsgdValue(norm, 0, kLevels);  // NaN for an invalid norm
    for (int64_t next = 0;;) {
      const int64_t place = next + bits.TakeGamma() - 1;
      if (!bits.ok() || place > values) return false;
      for (; next < place; ++next) body(next, zero);
      if (place == values) return true;
      const bool below = bits.Take(1) != 0;
      const auto magnitude = static_cast<int>(kLevels > 1 ? bits.TakeGamma() : 1);
      if (!bits.ok() || magnitude > kLevels) return false;
      body(next++, QsgdValue(norm, below ? -magnitude : magnitude, kLevels));
    }
  }
  static bool SkipBlock(BitReader& bits, int64_t values) {
    return TakeBlock(bits, values, [](int64_t, float) {});
  }

  size_t IndexBytes() const { return static_cast<size_t>(groups_) * sizeof(uint32_t); }
  static uint32_t EndOf(std::span<const std::byte> bytes, int64_t group) {
    uint32_t end = 0;
    if (group >= 0) std::memcpy(&end, bytes.data() + static_cast<size_t>(group) * sizeof(end), sizeof(end));
    return end;
  }
  std::span<const std::byte> GroupAt(std::span<const std::byte> bytes, int64_t group) const {
    const uint32_t begin = EndOf(bytes, group - 1);
    return bytes.subspan(IndexBytes() + begin, EndOf(bytes, group) - begin);
  }

  const int64_t elements_, groups_;
};

// Offsets of groups have 32 bits.
template <int kLevels>
StatusOr<std::unique_ptr<const Codec>> CreateElias(int64_t elements, const Settings&) {
  auto codec = std::make_unique<EliasCoded<kLevels>>(elements);
  if (codec->MaxBytes() <= std::numeric_limits<uint32_t>::max()) return std::unique_ptr<const Codec>(std::move(codec));
  return InvalidArgument("update.codec \"elias{}\" has room for some 2^31 values, not for {}; take \"qsgd4\"", kLevels,
                         elements);
}

RIVULET_CODEC("elias1", "the levels of `qsgd2` in fewer bytes, as most are zero", {}, CreateElias<1>,
              {kSendsWholeModels});
RIVULET_CODEC("elias7", "the levels of `qsgd4` in fewer bytes, as most are zero", {}, CreateElias<7>,
              {kSendsWholeModels});
RIVULET_CODEC("elias127", "the levels of `qsgd8` in fewer bytes, as most are zero", {}, CreateElias<127>,
              {kSendsWholeModels});

}  // namespace
}  // namespace rivulet
