// "discrete_gaussian": rounds every value to a multiple of 2^-fraction_bits and adds an exact discrete Gaussian of the
// given parameter in these units (Kairouz, Liu, Steinke 2021, arXiv:2102.06387): a client's share of the noise in a
// secure sum. Results are integers of units below 2^24, which float32 holds, so that the sum is one of integers. The
// count of adaptive clipping gets the same noise, as one more value. Protective noise has a key from the system's
// generator. A "seeded" key comes from the task's stream, which anyone with the run's seed can repeat: for
// simulations.
#include <cmath>
#include <vector>

#include "federated/mechanisms/mechanism.h"
#include "federated/mechanisms/noise_source.h"
#include "federated/privacy/integer_noise.h"

namespace rivulet {
namespace {

constexpr int64_t kMostUnits = int64_t{1} << 24;  // up to here float32 holds all integers
constexpr size_t kDrawnAtOnce = 64 * static_cast<size_t>(privacy::kElementsPerBlock);

class DiscreteGaussianNoise final : public Mechanism {
 public:
  DiscreteGaussianNoise(int fraction_bits, const privacy::NoiseScale& scale, double count_units, bool seeded)
      : fraction_bits_(fraction_bits), law_(scale), count_units_(count_units), seeded_(seeded) {}

  Status Apply(std::span<const std::span<float>> parts, Draws& draws, Scalars& declared) const override {
    RIVULET_ASSIGN_OR_RETURN(const privacy::NoiseKey key, NoiseKeyFrom(seeded_, draws));
    std::vector<int64_t> noise;
    uint64_t block = 0;
    for (std::span<float> values : parts) {
      while (!values.empty()) {
        const std::span<float> stretch = values.first(std::min(values.size(), kDrawnAtOnce));
        noise.assign(stretch.size(), 0);
        RIVULET_RETURN_IF_ERROR(privacy::DrawNoise(key, law_, block, noise));
        block += (noise.size() + privacy::kElementsPerBlock - 1) / privacy::kElementsPerBlock;
        RIVULET_RETURN_IF_ERROR(AddAll(noise, stretch));
        values = values.subspan(stretch.size());
      }
    }
    if (count_units_ == 0) return absl::OkStatus();
    const auto count = declared.find("unclipped");
    if (count == declared.end()) return InvalidArgument("the update does not say whether it was clipped");
    noise.assign(1, 0);
    RIVULET_RETURN_IF_ERROR(privacy::DrawNoise(key, law_, block, noise));
    count->second += static_cast<double>(noise[0]) / count_units_;  // exact: the units are a power of two
    return absl::OkStatus();
  }

  bool repeatable() const override { return seeded_; }

 private:
  // Fast path: almost always all values are in range. Otherwise the caller repeats the work and reports the error.
  Status AddAll(std::span<const int64_t> noise, std::span<float> values) const {
    // Rounds to the nearest integer, ties to even, below 2^51; larger values are out of range.
    constexpr double kMagic = 0x1.8p52;
    const double unit = std::ldexp(1.0, -fraction_bits_), per_unit = std::ldexp(1.0, fraction_bits_);
    for (size_t i = 0; i < values.size(); ++i) {
      const double exact = static_cast<double>(values[i]) * per_unit, units = exact + kMagic - kMagic;
      const auto added = static_cast<double>(noise[i]);
      if (!(std::abs(exact) + std::abs(added) < static_cast<double>(kMostUnits) - 1)) [[unlikely]] {
        RIVULET_RETURN_IF_ERROR(Add(noise[i], values[i]));
        continue;
      }
      values[i] = static_cast<float>((units + added) * unit);
    }
    return absl::OkStatus();
  }

  Status Add(int64_t noise, float& value) const {
    if (!std::isfinite(value)) return absl::OkStatus();  // the coordinator refuses it
    const double units = std::nearbyint(std::ldexp(static_cast<double>(value), fraction_bits_));
    if (!(std::abs(units) + std::abs(static_cast<double>(noise)) < static_cast<double>(kMostUnits))) {
      return InvalidArgument(
          "a value {} with noise of {} units of 2^-{} has no room in 24 bits; is the update clipped before its noise?",
          value, noise, fraction_bits_);
    }
    value = static_cast<float>(std::ldexp(units + static_cast<double>(noise), -fraction_bits_));
    return absl::OkStatus();
  }

  const int fraction_bits_;
  const privacy::DiscreteGaussian law_;
  const double count_units_;  // for each 1 of "unclipped"; 0: no count is summed
  const bool seeded_;
};

// Plans state settings as floats: both are integers or exact as floats.
RIVULET_MECHANISM(discrete_gaussian_registration, "discrete_gaussian",
                  {Float("fraction_bits", std::nullopt, "Values are multiples of 2 to minus this.").Between(-40, 60),
                   Float("parameter", std::nullopt, "The noise's deviation in these units.")
                       .Between(privacy::NoiseScale::kLeast, privacy::NoiseScale::kMost),
                   Float("count_units", 0, "Units in each 1 of \"unclipped\", a power of two; 0: nothing is counted.")
                       .Between(0, 0x1p32),
                   Text("source", kSecureSource, "Whose randomness it is.").OneOf({kSecureSource, kSeededSource})},
                  [](const Settings& settings) -> std::unique_ptr<const Mechanism> {
                    return std::make_unique<DiscreteGaussianNoise>(
                        static_cast<int>(settings.number("fraction_bits")),
                        privacy::NoiseScale::AtLeast(settings.number("parameter")).value(),
                        settings.number("count_units"), settings.text("source") == kSeededSource);
                  });

}  // namespace
}  // namespace rivulet
