// The loss at which a client weighs 1 where clients weigh by their losses (federated/mechanisms/tilt.cc, fair.cc): the
// largest training loss of the version before, or the smallest. All clients of a version have one reference, so their
// weights have a common factor, which the division by the sum of the weights takes out again. It only keeps the weights
// within what sums in fixed point can hold.
#include <algorithm>
#include <cmath>

#include "federated/numbers/number_rule.h"

namespace rivulet {
namespace {

constexpr char kReference[] = "loss_reference";

class LossReference final : public NumberRule {
 public:
  LossReference(double first, bool largest) : first_(first), largest_(largest) {}

  std::vector<std::string> Names() const override { return {kReference}; }
  ServerNumbers First() const override { return {{{kReference, first_}}, {}}; }

  ServerNumbers Next(const ServerNumbers& before, std::span<const ReportedLoss> told, const Scalars&) const override {
    ServerNumbers next = before;
    bool found = false;
    for (const ReportedLoss& of : told) {
      if (!std::isfinite(of.loss)) continue;
      double& reference = next.all[kReference];
      reference = !found ? of.loss : largest_ ? std::max(reference, of.loss) : std::min(reference, of.loss);
      found = true;
    }
    return next;
  }

  Scalars Of(const ServerNumbers& numbers, const std::string&) const override {
    return {{kReference, numbers.all.at(kReference)}};
  }

 private:
  const double first_;
  const bool largest_;
};

RIVULET_NUMBER_RULE(loss_reference_registration, "loss_reference",
                    {Float("first", 0, "Of version 0.").Between(-1e30, 1e30),
                     Flag("largest", true, "Whether it is the largest loss; else the smallest.")},
                    [](const Settings& settings) -> std::unique_ptr<const NumberRule> {
                      return std::make_unique<LossReference>(settings.number("first"), settings.flag("largest"));
                    });

}  // namespace
}  // namespace rivulet
