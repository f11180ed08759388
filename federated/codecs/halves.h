// Codecs with two bytes per value. `Half` defines the format: kName, Of(float) and ValueOf(uint16_t).
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "federated/codecs/codec.h"

namespace rivulet {

static_assert(std::endian::native == std::endian::little, "halves travel as they are in memory");

template <typename Half>
class Halves final : public Codec {
 public:
  explicit Halves(int64_t elements) : bytes_(static_cast<size_t>(elements) * sizeof(uint16_t)) {}
  int64_t MaxBytes() const override { return static_cast<int64_t>(bytes_); }

  void Encode(std::span<const FloatRun> values, Draws&, std::string& out) const override {
    size_t at = out.size();
    out.resize(at + bytes_);
    EachValue(values, [&](float value) {
      const uint16_t half = Half::Of(value);
      std::memcpy(out.data() + at, &half, sizeof(half));
      at += sizeof(half);
    });
  }

  Status Check(std::span<const std::byte> bytes) const override {
    if (bytes.size() == bytes_) return absl::OkStatus();
    return InvalidArgument("it has {} bytes where {} {} elements have {}", bytes.size(), bytes_ / sizeof(uint16_t),
                           Half::kName, bytes_);
  }

  void Decode(std::span<const std::byte> bytes, int64_t first, std::span<float> out) const override {
    const std::byte* from = bytes.data() + static_cast<size_t>(first) * sizeof(uint16_t);
    for (float& value : out) {
      uint16_t half = 0;
      std::memcpy(&half, from, sizeof(half));
      from += sizeof(half);
      value = Half::ValueOf(half);
    }
  }

 private:
  const size_t bytes_;
};

}  // namespace rivulet
