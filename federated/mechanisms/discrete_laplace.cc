// "discrete_laplace": local differential privacy of one update, from everyone who reads it (Ghosh, Roughgarden,
// Sundararajan 2012, arXiv:0811.2841; Duchi, Jordan, Wainwright 2013 for the local model). A unit is 2^-fraction_bits.
// Values are scaled to a sum of magnitudes of at most `clip_units` units, and truncated to whole units. Each gets an
// exact discrete Laplace with the scale `scale` in units. Two updates then differ by at most 2 clip_units in the L1
// norm, for any data, so one task spends epsilon = 2 clip_units / scale.
//
// The output depends on nothing else of an update. An update that is not finite counts as zeros, and results outside
// ±2^23 units are clamped after the noise. Protective noise has a key from the system's generator; a "seeded" key comes
// from the task's stream, which anyone with the run's seed can repeat: for simulations.
#include <algorithm>
#include <cmath>
#include <vector>

#include "federated/mechanisms/mechanism.h"
#include "federated/mechanisms/noise_source.h"
#include "federated/privacy/integer_noise.h"

namespace rivulet {
namespace {

constexpr int64_t kLargestSent = (int64_t{1} << 23) - 1;  // units; float32 holds all integers up to here
constexpr size_t kLaplaceAtOnce = 64 * static_cast<size_t>(privacy::kElementsPerBlock);

class DiscreteLaplaceNoise final : public Mechanism {
 public:
  DiscreteLaplaceNoise(int fraction_bits, int64_t clip_units, const privacy::DiscreteLaplace& law, bool seeded)
      : fraction_bits_(fraction_bits), clip_units_(clip_units), law_(law), seeded_(seeded) {}

  Status Apply(std::span<const std::span<float>> parts, Draws& draws, Scalars&) const override {
    double norm = 0;
    for (const std::span<const float> part : parts) {
      for (const float value : part) norm += std::abs(static_cast<double>(value));
    }
    const double most = std::ldexp(static_cast<double>(clip_units_), -fraction_bits_);
    const double factor = !std::isfinite(norm) ? 0 : norm > most ? most / norm : 1;
    RIVULET_ASSIGN_OR_RETURN(const privacy::NoiseKey key, NoiseKeyFrom(seeded_, draws));
    const double to_units = std::ldexp(1.0, fraction_bits_), unit = std::ldexp(1.0, -fraction_bits_);
    int64_t left = clip_units_;  // ensures that rounding never makes the norm larger
    std::vector<int64_t> noise;
    uint64_t block = 0;
    for (std::span<float> values : parts) {
      while (!values.empty()) {
        const std::span<float> stretch = values.first(std::min(values.size(), kLaplaceAtOnce));
        noise.assign(stretch.size(), 0);
        RIVULET_RETURN_IF_ERROR(privacy::DrawNoise(key, law_, block, noise));
        block += (noise.size() + privacy::kElementsPerBlock - 1) / privacy::kElementsPerBlock;
        for (size_t i = 0; i < noise.size(); ++i) {
          const int64_t units = factor == 0 ? 0 : UnitsOf(static_cast<double>(stretch[i]) * factor * to_units, left);
          left -= std::abs(units);
          const int64_t sent = std::clamp(units + noise[i], -kLargestSent, kLargestSent);
          stretch[i] = static_cast<float>(static_cast<double>(sent) * unit);
        }
        values = values.subspan(stretch.size());
      }
    }
    return absl::OkStatus();
  }

  bool repeatable() const override { return seeded_; }

 private:
  // Rounds towards zero, to at most `left`.
  static int64_t UnitsOf(double units, int64_t left) {
    return static_cast<int64_t>(std::clamp(units, -static_cast<double>(left), static_cast<double>(left)));
  }

  const int fraction_bits_;
  const int64_t clip_units_;
  const privacy::DiscreteLaplace law_;
  const bool seeded_;
};

// Plans state settings as floats: all are integers as floats.
RIVULET_MECHANISM(discrete_laplace_registration, "discrete_laplace",
                  {Float("fraction_bits", std::nullopt, "Values are multiples of 2 to minus this.").Between(-40, 60),
                   Float("clip_units", std::nullopt, "Largest sum of the magnitudes of an update, in these units.")
                       .Between(1, 0x1p23),
                   Float("scale", std::nullopt, "The noise's scale in these units.").Between(1, 0x1p40),
                   Text("source", kSecureSource, "Whose randomness it is.").OneOf({kSecureSource, kSeededSource})},
                  [](const Settings& settings) -> std::unique_ptr<const Mechanism> {
                    const auto scale = static_cast<uint64_t>(settings.number("scale"));
                    return std::make_unique<DiscreteLaplaceNoise>(static_cast<int>(settings.number("fraction_bits")),
                                                                  static_cast<int64_t>(settings.number("clip_units")),
                                                                  privacy::DiscreteLaplace::Create(scale, 1).value(),
                                                                  settings.text("source") == kSeededSource);
                  });

}  // namespace
}  // namespace rivulet
