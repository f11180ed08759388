// "fair": the weight of an update in q-FedAvg (Li et al. 2020, arXiv:1905.10497, algorithm 2), carried in its values.
// With F the loss that the client declares of the model that its task began with ("initial_loss"), Δ the update and L
// one over the client's learning rate, the values become F^q · Δ, and the client declares what they are divided by:
//
//   fair_weight = F^q + q · L · F^(q − 1) · ‖Δ‖²
//
// which is the paper's h over its L. As it does there, 10^-10 is added to F, of which a power may be taken then.
#include <cmath>

#include "federated/mechanisms/mechanism.h"

namespace rivulet {
namespace {

class Fair final : public Mechanism {
 public:
  Fair(double q, double learning_rate) : q_(q), learning_rate_(learning_rate) {}

  Status Apply(std::span<const std::span<float>> parts, Draws&, Scalars& declared) const override {
    const auto found = declared.find("initial_loss");
    if (found == declared.end()) return InvalidArgument("a fair weight needs the loss that a task began with");
    const double loss = found->second + 1e-10;
    double squares = 0;
    for (const std::span<float> part : parts) {
      for (const float value : part) squares += static_cast<double>(value) * value;
    }
    const double weight = std::pow(loss, q_);
    for (const std::span<float> part : parts) {
      for (float& value : part) value = static_cast<float>(value * weight);
    }
    declared["fair_weight"] = weight + q_ / learning_rate_ * std::pow(loss, q_ - 1) * squares;
    return absl::OkStatus();
  }

 private:
  const double q_, learning_rate_;
};

std::unique_ptr<const Mechanism> CreateFair(const Settings& settings) {
  return std::make_unique<Fair>(settings.number("q"), settings.number("learning_rate"));
}

RIVULET_MECHANISM(fair_registration, "fair",
                  {Float("q", std::nullopt, "How much more a client of a higher loss counts.").Between(0, 10),
                   Float("learning_rate", std::nullopt, "Of the client's optimiser.").Above(0)},
                  CreateFair);

}  // namespace
}  // namespace rivulet
