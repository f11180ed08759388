// Selection by data: a client's probability of being next is proportional to a power of its number of examples (Li et
// al. 2020, arXiv:1907.02189, scheme I, without replacement). With exponent = 0 it is uniform selection, to the bit.
#include "federated/selection/weighted_order.h"

namespace rivulet {
namespace {

class WeightedSelector final : public Selector {
 public:
  explicit WeightedSelector(double exponent) : exponent_(exponent) {}
  std::unique_ptr<Order> OrderOf(const CohortDraw& draw) const override { return OrderByExamples(draw, exponent_); }

 private:
  const double exponent_;
};

Setting Exponent() {
  Setting exponent = Float("exponent", 1, "Power of its examples that a client counts; 0: all the same.").Between(0, 4);
  exponent.example = "0.5";
  return exponent;
}

RIVULET_SELECTOR(weighted_registration, "weighted",
                 "Clients with more examples are drawn more often (Li et al. 2020, arXiv:1907.02189, scheme I, without "
                 "replacement); `server.weights = \"uniform\"` then keeps them from counting twice. A client says how "
                 "many it has with its first update, and counts as the mean of the others until then.",
                 {Exponent()}, [](const Settings& settings) -> std::unique_ptr<const Selector> {
                   return std::make_unique<WeightedSelector>(settings.number("exponent"));
                 });

}  // namespace
}  // namespace rivulet
