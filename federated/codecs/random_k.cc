// "random_k": of d values k = ceil(fraction × d) that are drawn without looking at them, times d / k, so that the mean
// of what could be sent is the values themselves (Wangni et al. 2018, arXiv:1710.09854, with equal probabilities), as
// sparse_values.h has them travel. The variance of a value v is v² · (d / k − 1).
#include <cmath>
#include <limits>

#include "federated/codecs/sparse_values.h"

namespace rivulet {
namespace {

class RandomK final : public SparseValues {
 public:
  RandomK(int64_t elements, int64_t k) : SparseValues(elements, k) {}

  // Each of those that are left is drawn with the probability that it is one of those that are to come: every set of k
  // is as likely (Knuth, volume 2, algorithm 3.4.2 S).
  void Encode(std::span<const FloatRun> values, Draws& draws, std::string& out) const override {
    bool finite = true;
    EachValue(values, [&](float value) { finite &= std::isfinite(value); });
    // What is no number is not to be left out by chance.
    const double scale =
        finite ? static_cast<double>(elements()) / static_cast<double>(k()) : std::numeric_limits<double>::quiet_NaN();
    Writer writer(k(), out);
    auto left = static_cast<uint64_t>(elements()), to_come = static_cast<uint64_t>(k());
    uint32_t index = 0;
    EachValue(values, [&](float value) {
      if (draws.Below(left--) < to_come) {
        --to_come;
        writer.Put(index, static_cast<float>(value * scale));
      }
      ++index;
    });
  }
};

StatusOr<std::unique_ptr<const Codec>> CreateRandomK(int64_t elements, const Settings& settings) {
  RIVULET_ASSIGN_OR_RETURN(const int64_t k, ValuesOfFraction(elements, settings));
  return std::make_unique<RandomK>(elements, k);
}

RIVULET_CODEC("random_k", "as many values as `top_k`, drawn by chance and scaled up so that their mean is right",
              {FractionOfValues()}, CreateRandomK);

}  // namespace
}  // namespace rivulet
