// "clip": all values of an update times min(1, norm / ‖update‖), the norm over all its parts (McMahan et al. 2018,
// arXiv:1710.06963, flat clipping). So no client says more than `norm`, to within the rounding of float32.
#include "federated/mechanisms/flat_values.h"
#include "federated/mechanisms/mechanism.h"

namespace rivulet {
namespace {

class Clip final : public Mechanism {
 public:
  explicit Clip(double norm) : norm_(norm) {}

  // Squares are summed in a fixed order and in double, so that every machine scales by the same number.
  Status Apply(std::span<const std::span<float>> parts, Draws&, Scalars&) const override {
    const double length = NormOf(parts);
    if (!(length > norm_)) return absl::OkStatus();  // NaN is left for whoever folds
    for (const std::span<float> part : parts) ScaleBy(part, norm_ / length);
    return absl::OkStatus();
  }

 private:
  const double norm_;
};

std::unique_ptr<const Mechanism> CreateClip(const Settings& settings) {
  return std::make_unique<Clip>(settings.number("norm"));
}

RIVULET_MECHANISM(clip_registration, "clip", {Float("norm", std::nullopt, "Largest norm of an update.").Above(0)},
                  CreateClip);

}  // namespace
}  // namespace rivulet
