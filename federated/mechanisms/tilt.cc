// "tilt": multiplies an update by its weight in tilted averaging (Li et al. 2021, arXiv:2007.01162, equation 2). F is
// the loss of the received model, which the client declares as "initial_loss". The values become e^(t·(F − R)) · Δ, and
// the client declares the divisor:
//
//   tilted_weight = e^(t·(F − R))
//
// R is the task's number "loss_reference", or else the setting. It is a common factor of a version's weights and
// cancels out. Sums have an absolute resolution and a bound, so a weight above e^kMostTilt is refused.
#include <cmath>

#include "federated/mechanisms/mechanism.h"

namespace rivulet {
namespace {

constexpr double kMostTilt = 10;  // e^10 is 22026

class Tilt final : public Mechanism {
 public:
  Tilt(double tilt, double reference) : tilt_(tilt), reference_(reference) {}

  Status Apply(std::span<const std::span<float>> parts, Draws&, Scalars& declared) const override {
    const auto found = declared.find("initial_loss");
    if (found == declared.end()) return InvalidArgument("a tilted weight needs the loss that a task began with");
    if (!std::isfinite(found->second)) {
      return InvalidArgument("the loss of the received model is {} on this client's data; training diverged",
                             found->second);
    }
    const auto moved = declared.find("loss_reference");
    const double reference = moved == declared.end() ? reference_ : moved->second;
    const double loss = found->second, exponent = tilt_ * (loss - reference);
    if (!(exponent <= kMostTilt)) {
      return InvalidArgument(
          "the client's loss is {}, and algorithm.t · (loss − reference) is {} with the reference {}, beyond {}; set "
          "algorithm.reference to a loss near this one, which changes no result, or lower algorithm.t",
          loss, exponent, reference, kMostTilt);
    }
    const double weight = std::exp(exponent);
    for (const std::span<float> part : parts) {
      for (float& value : part) value = static_cast<float>(value * weight);
    }
    declared["tilted_weight"] = weight;
    return absl::OkStatus();
  }

 private:
  const double tilt_, reference_;
};

std::unique_ptr<const Mechanism> CreateTilt(const Settings& settings) {
  return std::make_unique<Tilt>(settings.number("t"), settings.number("reference"));
}

RIVULET_MECHANISM(tilt_registration, "tilt",
                  {Float("t", std::nullopt, "How much more a client of a higher loss counts.").Between(-100, 100),
                   Float("reference", 0, "Loss at which a client weighs 1.").Between(-1e30, 1e30)},
                  CreateTilt);

}  // namespace
}  // namespace rivulet
