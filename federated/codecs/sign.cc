// "sign": one bit a value, and one scale for all (scaled signs, Karimireddy et al. 2019, arXiv:1901.09847, of Bernstein
// et al. 2018, arXiv:1802.04434): value i becomes ±‖x‖₁ / d. Little-endian:
//
//   scale f32 ‖x‖₁ / d; 0 if that is not a normal number (< 2^-126)
//   sign u1[d] 1 for values below zero; the first in the lowest bit; unused bits of the last byte are 0
//
// It is a contraction, ‖C(x) − x‖² = ‖x‖² − ‖x‖₁² / d, but biased; error feedback sends the error in later rounds.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "federated/codecs/block_scale.h"
#include "federated/codecs/codec.h"

namespace rivulet {
namespace {

static_assert(std::endian::native == std::endian::little, "the scale travels as it is in memory");

class Sign final : public Codec {
 public:
  explicit Sign(int64_t elements) : elements_(elements) {}
  int64_t MaxBytes() const override { return static_cast<int64_t>(sizeof(float)) + (elements_ + 7) / 8; }

  void Encode(std::span<const FloatRun> values, Draws&, std::string& out) const override {
    const size_t at = out.size();
    out.resize(at + static_cast<size_t>(MaxBytes()));
    double sum = 0;
    size_t i = 0;
    EachValue(values, [&](float value) {
      sum += std::isfinite(value) ? std::fabs(static_cast<double>(value)) : std::numeric_limits<double>::quiet_NaN();
      if (value < 0) out[at + sizeof(float) + i / 8] |= static_cast<char>(1 << i % 8);
      ++i;
    });
    const float scale = NormalScale(static_cast<float>(sum / static_cast<double>(elements_)));
    std::memcpy(out.data() + at, &scale, sizeof(scale));
  }

  Status Check(std::span<const std::byte> bytes) const override {
    if (std::ssize(bytes) != MaxBytes()) {
      return InvalidArgument("it has {} bytes where {} signs have {}", bytes.size(), elements_, MaxBytes());
    }
    const int used = static_cast<int>(elements_ % 8);
    const bool left_over = used > 0 && (bytes.back() >> used) != std::byte{0};
    if (IsNormalScale(ScaleOf(bytes)) && !left_over) return absl::OkStatus();
    return InvalidArgument("its scale is {}, or it has more signs than values", ScaleOf(bytes));
  }

  void Decode(std::span<const std::byte> bytes, int64_t first, std::span<float> out) const override {
    const float scale = ScaleOf(bytes);
    for (size_t i = 0; i < out.size(); ++i) {
      const size_t at = static_cast<size_t>(first) + i;
      const bool below = (bytes[sizeof(float) + at / 8] >> (at % 8) & std::byte{1}) != std::byte{0};
      out[i] = below ? -scale : scale;
    }
  }

 private:
  static float ScaleOf(std::span<const std::byte> bytes) {
    float scale = 0;
    std::memcpy(&scale, bytes.data(), sizeof(scale));
    return scale;
  }

  const int64_t elements_;
};

std::unique_ptr<const Codec> CreateSign(int64_t elements) { return std::make_unique<Sign>(elements); }

RIVULET_CODEC("sign", "one bit a value, times the mean magnitude", CreateSign, {kLosesInTheMean});

}  // namespace
}  // namespace rivulet
