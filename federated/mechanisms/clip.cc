// "clip": multiplies all values of an update by min(1, norm / ‖update‖), with the norm over all its parts (McMahan et
// al. 2018, arXiv:1710.06963, flat clipping). The factor is the largest float32 not above that, and each product is
// rounded once. So no update is longer than `norm`, apart from float32 rounding.
#include "federated/mechanisms/scaling.h"

namespace rivulet {
namespace {

class Clip final : public ScalingMechanism {
 public:
  explicit Clip(double norm) : norm_(norm) {}

  StatusOr<float> FactorFor(double norm, Scalars&) const override {
    return norm > norm_ ? FloatUpTo(norm_ / norm) : 1;  // NaN is refused by the aggregation
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
