// Adds a step to every value: from -amount for the first group to amount for the last; a single group has none.
#include "setup/feature_shifts/shift.h"

namespace rivulet {
namespace {

class Brightness : public ShiftLaw {
 public:
  Brightness(double amount, int64_t groups) : amount_(amount), groups_(groups) {}
  void Apply(int64_t group, int64_t, std::span<float> values) const override {
    if (groups_ == 1) return;
    const double step = amount_ * (2 * static_cast<double>(group) / static_cast<double>(groups_ - 1) - 1);
    for (float& value : values) value = static_cast<float>(value + step);
  }

 private:
  const double amount_;
  const int64_t groups_;
};

StatusOr<std::unique_ptr<ShiftLaw>> CreateBrightness(const ShiftRequest& request) {
  return std::make_unique<Brightness>(request.settings.number("amount"), request.groups);
}

std::string BrightnessText(const Settings& settings, int64_t) {
  const double amount = settings.number("amount");
  return fmt::format("brightness {:+.4g} to {:+.4g}", -amount, amount);
}

RIVULET_FEATURE_SHIFT(brightness_registration,
                      {.name = "brightness",
                       .doc = "adds to every value",
                       .settings = {ShiftAmount(0.5, 1e6, "The largest step. Pixels are 0 to 1.", "0.25")},
                       .create = CreateBrightness,
                       .text = BrightnessText});

}  // namespace
}  // namespace rivulet
