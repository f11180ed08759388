// Rotates images about their centre (rotated MNIST): group g of G by amount · g / G degrees, counter-clockwise, with
// bilinear interpolation and zeros outside the image. Ghosh et al. 2020 rotate by 0, 90, 180 and 270 degrees, which is
// 360 with 4 groups.
#include <cmath>
#include <numbers>
#include <utility>

#include "engine/base/trigonometry.h"
#include "setup/feature_shifts/shift.h"

namespace rivulet {
namespace {

constexpr double kFullTurn = 360;

struct Image {
  int64_t height = 0, width = 0, channels = 0;
};

// Sine and cosine of multiples of 90 degrees are exact, so these only move pixels.
std::pair<double, double> SineAndCosine(double degrees) {
  const double quarters = degrees / 90;
  if (quarters == std::floor(quarters)) {
    static constexpr double kSine[] = {0, 1, 0, -1};
    const auto quarter = static_cast<size_t>(std::fmod(quarters, 4) + 4) % 4;
    return {kSine[quarter], kSine[(quarter + 1) % 4]};
  }
  const double angle = degrees * std::numbers::pi / 180;
  return {math::Sin(angle), math::Cos(angle)};
}

class Rotation : public ShiftLaw {
 public:
  Rotation(Image image, double degrees, int64_t groups) : image_(image), degrees_(degrees), groups_(groups) {}
  void Apply(int64_t group, int64_t, std::span<float> values) const override {
    const double degrees = degrees_ * static_cast<double>(group) / static_cast<double>(groups_);
    if (std::fmod(degrees, kFullTurn) == 0) return;
    const auto [sine, cosine] = SineAndCosine(degrees);
    const std::vector<float> before(values.begin(), values.end());
    const double middle_y = static_cast<double>(image_.height - 1) / 2,
                 middle_x = static_cast<double>(image_.width - 1) / 2;
    size_t at = 0;
    for (int64_t row = 0; row < image_.height; ++row) {
      for (int64_t column = 0; column < image_.width; ++column) {
        // Rows count downwards, so this is the inverse (clockwise) rotation.
        const double y = static_cast<double>(row) - middle_y, x = static_cast<double>(column) - middle_x;
        const double from_y = sine * x + cosine * y + middle_y, from_x = cosine * x - sine * y + middle_x;
        for (int64_t channel = 0; channel < image_.channels; ++channel)
          values[at++] = static_cast<float>(Interpolated(before, from_y, from_x, channel));
      }
    }
  }

 private:
  double Interpolated(const std::vector<float>& pixels, double y, double x, int64_t channel) const {
    const double top = std::floor(y), left = std::floor(x);
    double sum = 0;
    for (int down = 0; down < 2; ++down) {
      for (int right = 0; right < 2; ++right) {
        const double share = (down == 1 ? y - top : 1 - (y - top)) * (right == 1 ? x - left : 1 - (x - left));
        const auto row = static_cast<int64_t>(top) + down, column = static_cast<int64_t>(left) + right;
        if (share == 0 || row < 0 || row >= image_.height || column < 0 || column >= image_.width) continue;
        sum += share * pixels[static_cast<size_t>((row * image_.width + column) * image_.channels + channel)];
      }
    }
    return sum;
  }

  const Image image_;
  const double degrees_;
  const int64_t groups_;
};

StatusOr<std::unique_ptr<ShiftLaw>> CreateRotation(const ShiftRequest& request) {
  RIVULET_RETURN_IF_ERROR(CheckImage(request, "rotation", "turns images [height, width, channels]"));
  const Shape& shape = request.input.spec.shape;
  const Image size{shape.dim(1), shape.dim(2), shape.dim(3)};
  return std::make_unique<Rotation>(size, request.settings.number("amount"), request.groups);
}

std::string RotationText(const Settings& settings, int64_t groups) {
  const auto n = static_cast<double>(groups);
  return fmt::format("rotation by 0 to {:.4g} degrees", settings.number("amount") * (n - 1) / n);
}

RIVULET_FEATURE_SHIFT(rotation_registration,
                      {.name = "rotation",
                       .doc = "turns images (rotated MNIST)",
                       .settings = {ShiftAmount(360, 1e6, "Degrees from the first client to behind the last.", "90.0")},
                       .create = CreateRotation,
                       .text = RotationText});

}  // namespace
}  // namespace rivulet
