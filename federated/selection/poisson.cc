// Poisson sampling (Abadi et al. 2016, arXiv:1607.00133; McMahan et al. 2018, arXiv:1710.06963, algorithm 1).
#include "federated/selection/selector.h"

namespace rivulet {
namespace {

class Poisson final : public Selector {
 public:
  explicit Poisson(double rate) : rate_(rate) {}
  bool remembers() const override { return false; }
  double rate() const override { return rate_; }
  // An order of all members; names decide which of them are in the cohort (poisson_draw.h).
  std::unique_ptr<Order> OrderOf(const CohortDraw& draw) const override { return UniformOrder(draw); }

 private:
  const double rate_;
};

Setting Rate() {
  Setting rate = Float("rate", std::nullopt,
                       "Probability with which each member is drawn. Set server.clients_per_round to the rate times "
                       "the number of members: updates are divided by it.")
                     .Between(1e-9, 0.999);
  rate.example = "0.1";
  return rate;
}

RIVULET_SELECTOR(poisson_registration, "poisson",
                 "Each member is drawn independently with the probability `rate`, so cohorts have a random size and "
                 "absent clients are not replaced (McMahan et al. 2018, arXiv:1710.06963, algorithm 1). A retry of a "
                 "version asks the same clients. With noise, draws follow from the run's secret key.",
                 {Rate()}, [](const Settings& settings) -> std::unique_ptr<const Selector> {
                   return std::make_unique<Poisson>(settings.number("rate"));
                 });

}  // namespace
}  // namespace rivulet
