// "discrete_gaussian": every value is rounded to a multiple of 2^-fraction_bits, and an exact discrete Gaussian of the
// given parameter in these units is added (Kairouz, Liu, Steinke 2021, arXiv:2102.06387): a client's part of the
// noise of a secure sum. Results are whole numbers of units below 2^24, which float32 holds, so that the sum is one of
// integers. The count of adaptive clipping gets the same noise, as one more value. What is to protect somebody has a
// key of the system's generator; a "seeded" key is of the task's stream, which knowledge of the run's seed repeats: for
// simulations.
#include <cmath>
#include <vector>

#include "federated/mechanisms/mechanism.h"
#include "federated/mechanisms/noise_source.h"
#include "federated/privacy/integer_noise.h"

namespace rivulet {
namespace {

constexpr int64_t kMostUnits = int64_t{1} << 24;  // whole numbers that float32 holds
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
        for (size_t i = 0; i < noise.size(); ++i) RIVULET_RETURN_IF_ERROR(Add(noise[i], stretch[i]));
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
  Status Add(int64_t noise, float& value) const {
    if (!std::isfinite(value)) return absl::OkStatus();  // left for the coordinator to refuse
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
  const double count_units_;  // of each 1 of "unclipped"; 0: it is not summed
  const bool seeded_;
};

// Plans state numbers as floats: both are whole or exact in one.
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
