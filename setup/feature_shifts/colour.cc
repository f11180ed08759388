// Multiplies red, green and blue by 1 - amount · u each, with u uniform on [0, 1) and drawn per group.
#include "setup/feature_shifts/shift.h"

namespace rivulet {
namespace {

class Colour : public ShiftLaw {
 public:
  Colour(double amount, uint64_t seed) : amount_(amount), seed_(seed) {}
  void Apply(int64_t group, int64_t, std::span<float> values) const override {
    Draws draws = ShiftDraws(seed_, group);
    double share[3];
    for (double& channel : share) channel = 1 - amount_ * draws.Uniform();
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(values[i] * share[i % 3]);
  }

 private:
  const double amount_;
  const uint64_t seed_;
};

StatusOr<std::unique_ptr<ShiftLaw>> CreateColour(const ShiftRequest& request) {
  constexpr std::string_view kDoes = "is for images of red, green and blue";
  RIVULET_RETURN_IF_ERROR(CheckImage(request, "colour", kDoes));
  const Shape& shape = request.input.spec.shape;
  if (shape.dim(3) != 3)
    return InvalidArgument("data.shift.kind = \"colour\" {}, and '{}' is {}", kDoes, request.feature, shape.ToString());
  return std::make_unique<Colour>(request.settings.number("amount"), request.seed);
}

std::string ColourText(const Settings& settings, int64_t) {
  return fmt::format("colour, up to {:.4g} of a channel less", settings.number("amount"));
}

RIVULET_FEATURE_SHIFT(colour_registration,
                      {.name = "colour",
                       .doc = "scales red, green and blue",
                       .settings = {ShiftAmount(0.5, 1, "The largest share that a channel loses.", "0.25")},
                       .create = CreateColour,
                       .text = ColourText});

}  // namespace
}  // namespace rivulet
