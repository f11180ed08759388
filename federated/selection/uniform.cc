// Uniform selection (McMahan et al. 2017, arXiv:1602.05629, algorithm 1).
#include "federated/selection/selector.h"

namespace rivulet {
namespace {

class UniformSelector final : public Selector {
 public:
  bool remembers() const override { return false; }
  std::unique_ptr<Order> OrderOf(const CohortDraw& draw) const override { return UniformOrder(draw); }
};

RIVULET_SELECTOR(uniform_registration, "uniform",
                 "Every cohort is equally likely (McMahan et al. 2017, arXiv:1602.05629, algorithm 1).", {},
                 [](const Settings&) -> std::unique_ptr<const Selector> {
                   return std::make_unique<UniformSelector>();
                 });

}  // namespace
}  // namespace rivulet
