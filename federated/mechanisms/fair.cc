// "fair": multiplies an update by its weight in q-FedAvg (Li et al. 2020, arXiv:1905.10497, algorithm 2). F is the loss
// of the received model, which the client declares as "initial_loss", Δ the update, and L the inverse of the client's
// learning rate. The values become (F / R)^q · Δ, and the client declares the divisor:
//
//   fair_weight = (F^q + q · L · F^(q − 1) · ‖Δ‖²) / R^q
//
// which is the paper's h divided by L and R^q. As in the paper, 10^-10 is added to F, so that powers are defined. R is
// the task's number "loss_reference", or else the setting: a common factor of a version's updates, which cancels out.
// Sums have an absolute resolution and a bound, so a weight above kMostWeight is refused.
#include <algorithm>
#include <cmath>

#include "federated/mechanisms/mechanism.h"

namespace rivulet {
namespace {

constexpr double kLeastLoss = 1e-10, kMostWeight = 0x1p20;

class Fair final : public Mechanism {
 public:
  Fair(double q, double learning_rate, double reference)
      : q_(q), learning_rate_(learning_rate), reference_(reference) {}

  Status Apply(std::span<const std::span<float>> parts, Draws&, Scalars& declared) const override {
    const auto found = declared.find("initial_loss");
    if (found == declared.end()) return InvalidArgument("a fair weight needs the loss that a task began with");
    if (!std::isfinite(found->second)) {
      return InvalidArgument("the loss of the received model is {} on this client's data; training diverged",
                             found->second);
    }
    if (found->second < 0) {
      return InvalidArgument(
          "the client's loss is {}, and algorithm.q takes powers of losses, which are not below 0; take a loss that "
          "is, or the algorithm \"term\"",
          found->second);
    }
    const auto moved = declared.find("loss_reference");
    const double reference = moved == declared.end() ? reference_ : moved->second;
    const double loss = found->second + kLeastLoss, unit = std::max(reference, 0.0) + kLeastLoss;
    double squares = 0;
    for (const std::span<float> part : parts) {
      for (const float value : part) squares += static_cast<double>(value) * value;
    }
    const double weight = std::pow(loss / unit, q_);
    if (!(weight <= kMostWeight)) {
      return InvalidArgument(
          "the client's loss is {}, and (loss / reference)^q is {} with the reference {}, beyond {}; set "
          "algorithm.reference to a loss near this one, which changes no result, or lower algorithm.q",
          found->second, weight, reference, kMostWeight);
    }
    for (const std::span<float> part : parts) {
      for (float& value : part) value = static_cast<float>(value * weight);
    }
    declared["fair_weight"] = weight * (1 + q_ / (learning_rate_ * loss) * squares);
    return absl::OkStatus();
  }

 private:
  const double q_, learning_rate_, reference_;
};

std::unique_ptr<const Mechanism> CreateFair(const Settings& settings) {
  return std::make_unique<Fair>(settings.number("q"), settings.number("learning_rate"), settings.number("reference"));
}

RIVULET_MECHANISM(fair_registration, "fair",
                  {Float("q", std::nullopt, "How much more a client of a higher loss counts.").Between(0, 10),
                   Float("learning_rate", std::nullopt, "Of the client's optimiser.").Above(0),
                   Float("reference", 1, "Loss at which a client weighs 1.").Above(0)},
                  CreateFair);

}  // namespace
}  // namespace rivulet
