// "tilt": the weight of an update in tilted averaging (Li et al. 2021, arXiv:2007.01162, equation 2), carried in its
// values. With F the loss that the client declares of the model that its task began with ("initial_loss"), the values
// become e^(t·F) · Δ, and the client declares what they are divided by:
//
//   tilted_weight = e^(t·F)
//
// t·F beyond ±kMostTilt counts as that: the sum that values are added in has an absolute resolution and a bound, and
// one client of them decides alone already.
#include <algorithm>
#include <cmath>

#include "federated/mechanisms/mechanism.h"

namespace rivulet {
namespace {

constexpr double kMostTilt = 10;  // e^10 is 22026

class Tilt final : public Mechanism {
 public:
  explicit Tilt(double tilt) : tilt_(tilt) {}

  Status Apply(std::span<const std::span<float>> parts, Draws&, Scalars& declared) const override {
    const auto found = declared.find("initial_loss");
    if (found == declared.end()) return InvalidArgument("a tilted weight needs the loss that a task began with");
    const double weight = std::exp(std::clamp(tilt_ * found->second, -kMostTilt, kMostTilt));
    for (const std::span<float> part : parts) {
      for (float& value : part) value = static_cast<float>(value * weight);
    }
    declared["tilted_weight"] = weight;
    return absl::OkStatus();
  }

 private:
  const double tilt_;
};

std::unique_ptr<const Mechanism> CreateTilt(const Settings& settings) {
  return std::make_unique<Tilt>(settings.number("t"));
}

RIVULET_MECHANISM(tilt_registration, "tilt",
                  {Float("t", std::nullopt, "How much more a client of a higher loss counts.").Between(-100, 100)},
                  CreateTilt);

}  // namespace
}  // namespace rivulet
