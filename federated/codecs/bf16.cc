// "bf16": the upper half of each float32, rounded to the nearest, ties to even: two bytes a value with eight bits of
// precision and the whole range.
#include <bit>
#include <cstring>

#include "federated/codecs/codec.h"

namespace rivulet {
namespace {

static_assert(std::endian::native == std::endian::little, "halves travel as they lie in memory");

uint16_t Rounded(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>(bits >> 16 | 0x40);  // NaN stays one
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

class Bf16 : public Codec {
 public:
  explicit Bf16(int64_t elements) : bytes_(static_cast<size_t>(elements) * sizeof(uint16_t)) {}
  int64_t MaxBytes() const override { return static_cast<int64_t>(bytes_); }

  void Encode(std::span<const FloatRun> values, Draws&, std::string& out) const override {
    size_t at = out.size();
    out.resize(at + bytes_);
    EachValue(values, [&](float value) {
      const uint16_t half = Rounded(value);
      std::memcpy(out.data() + at, &half, sizeof(half));
      at += sizeof(half);
    });
  }

  Status Check(std::span<const std::byte> bytes) const override {
    if (bytes.size() == bytes_) return absl::OkStatus();
    return InvalidArgument("it has {} bytes where {} bfloat16 elements have {}", bytes.size(),
                           bytes_ / sizeof(uint16_t), bytes_);
  }

  void Decode(std::span<const std::byte> bytes, int64_t first, std::span<float> out) const override {
    const std::byte* from = bytes.data() + static_cast<size_t>(first) * sizeof(uint16_t);
    for (float& value : out) {
      uint16_t half = 0;
      std::memcpy(&half, from, sizeof(half));
      from += sizeof(half);
      value = std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
    }
  }

 private:
  const size_t bytes_;
};

std::unique_ptr<const Codec> CreateBf16(int64_t elements) { return std::make_unique<Bf16>(elements); }

RIVULET_CODEC("bf16", CreateBf16);

}  // namespace
}  // namespace rivulet
