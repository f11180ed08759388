// "f16": IEEE half precision, rounded to the nearest, ties to even: two bytes a value with eleven bits of precision,
// from 2^-24 to 65504. What is beyond becomes infinite, and whoever folds refuses it.
#include <bit>
#include <cstring>

#include "engine/tensor/float16.h"
#include "federated/codecs/codec.h"

namespace rivulet {
namespace {

static_assert(std::endian::native == std::endian::little, "halves travel as they lie in memory");

class F16 final : public Codec {
 public:
  explicit F16(int64_t elements) : bytes_(static_cast<size_t>(elements) * sizeof(uint16_t)) {}
  int64_t MaxBytes() const override { return static_cast<int64_t>(bytes_); }

  void Encode(std::span<const FloatRun> values, Draws&, std::string& out) const override {
    size_t at = out.size();
    out.resize(at + bytes_);
    EachValue(values, [&](float value) {
      const uint16_t half = float16(value).bits;
      std::memcpy(out.data() + at, &half, sizeof(half));
      at += sizeof(half);
    });
  }

  Status Check(std::span<const std::byte> bytes) const override {
    if (bytes.size() == bytes_) return absl::OkStatus();
    return InvalidArgument("it has {} bytes where {} float16 elements have {}", bytes.size(), bytes_ / sizeof(uint16_t),
                           bytes_);
  }

  void Decode(std::span<const std::byte> bytes, int64_t first, std::span<float> out) const override {
    const std::byte* from = bytes.data() + static_cast<size_t>(first) * sizeof(uint16_t);
    for (float& value : out) {
      uint16_t half = 0;
      std::memcpy(&half, from, sizeof(half));
      from += sizeof(half);
      value = float16::FromBits(half);
    }
  }

 private:
  const size_t bytes_;
};

std::unique_ptr<const Codec> CreateF16(int64_t elements) { return std::make_unique<F16>(elements); }

RIVULET_CODEC("f16", CreateF16);

}  // namespace
}  // namespace rivulet
