// Adds normal draws, separate ones for each value of each example, of variance amount · (g + 1) / G for group g of G
// (Li et al. 2022, arXiv:2102.02079, section III-B).
#include <cmath>

#include "setup/feature_shifts/shift.h"

namespace rivulet {
namespace {

class Noise : public ShiftLaw {
 public:
  Noise(double variance, int64_t groups, uint64_t seed) : variance_(variance), groups_(groups), seed_(seed) {}
  void Apply(int64_t group, int64_t example, std::span<float> values) const override {
    const double deviation = std::sqrt(variance_ * static_cast<double>(group + 1) / static_cast<double>(groups_));
    Draws draws = ShiftDraws(seed_, example);
    for (float& value : values) value = static_cast<float>(value + deviation * draws.Normal());
  }

 private:
  const double variance_;
  const int64_t groups_;
  const uint64_t seed_;
};

StatusOr<std::unique_ptr<ShiftLaw>> CreateNoise(const ShiftRequest& request) {
  return std::make_unique<Noise>(request.settings.number("amount"), request.groups, request.seed);
}

std::string NoiseText(const Settings& settings, int64_t groups) {
  const double amount = settings.number("amount");
  return fmt::format("noise of variance {:.4g} to {:.4g}", amount / static_cast<double>(groups), amount);
}

RIVULET_FEATURE_SHIFT(noise_registration,
                      {.name = "noise",
                       .doc = "adds normal draws whose variance grows from client to client (Li et al. 2022)",
                       .settings = {ShiftAmount(0.1, 1e6, "The largest variance. Pixels are 0 to 1.", "0.5")},
                       .create = CreateNoise,
                       .text = NoiseText});

}  // namespace
}  // namespace rivulet
