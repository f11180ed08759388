// The loss for which a client's weight is 1 under weighting by losses (federated/mechanisms/tilt.cc, fair.cc): the
// largest, or the smallest, training loss of the previous version. All clients of a version have one reference, so
// their weights have a common factor that cancels out. It only keeps the weights within the range of fixed-point
// sums.
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
