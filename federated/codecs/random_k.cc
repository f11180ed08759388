// "random_k": of d values, k = ceil(fraction × d) that are drawn independently of the values, times d / k, so that the
// expected result is the values themselves (Wangni et al. 2018, arXiv:1710.09854, with equal probabilities).
// sparse_values.h defines the bytes. The variance of a value v is v² · (d / k − 1).
//
// "random_k_shared": the same, with one draw for all updates of a version (the random mask of Konečný et al. 2016,
// arXiv:1610.05492). A sum of updates then also has k values, so secure aggregation masks and sends k words. The price:
// errors of one version's updates do not cancel, because all omit the same values.
#include <cmath>
#include <limits>

#include "federated/codecs/sparse_values.h"
#include "federated/settings/traits.h"

namespace rivulet {
namespace {

class RandomK final : public SparseValues {
 public:
  RandomK(int64_t elements, int64_t k, bool shared) : SparseValues(elements, k), shared_(shared) {}

  void Encode(std::span<const FloatRun> values, Draws& draws, std::string& out) const override {
    bool finite = true;
    EachValue(values, [&](float value) { finite &= std::isfinite(value); });
    // The draw must not hide values that are not finite, so all sent values become NaN then.
    const double scale = finite ? most_gain() : std::numeric_limits<double>::quiet_NaN();
    Writer writer(k(), out);
    Chooser chooser(*this, draws);
    uint32_t index = 0;
    EachValue(values, [&](float value) {
      if (chooser.Takes()) writer.Put(index, static_cast<float>(value * scale));
      ++index;
    });
  }

  bool shares_places() const override { return shared_; }
  int64_t places() const override { return static_cast<int64_t>(k()); }
  std::vector<uint32_t> Places(Draws draws) const override {
    std::vector<uint32_t> places;
    places.reserve(k());
    Chooser chooser(*this, draws);
    for (uint32_t index = 0; places.size() < k(); ++index) {
      if (chooser.Takes()) places.push_back(index);
    }
    return places;
  }
  double most_gain() const override { return static_cast<double>(elements()) / static_cast<double>(k()); }

 private:
  // Picks each index with the probability (picks still needed) / (indices still left), so that every set of k is
  // equally likely (Knuth, volume 2, algorithm 3.4.2 S).
  class Chooser {
   public:
    Chooser(const RandomK& codec, Draws& draws)
        : draws_(draws), left_(static_cast<uint64_t>(codec.elements())), to_come_(codec.k()) {}
    bool Takes() {
      const bool takes = draws_.Below(left_--) < to_come_;
      if (takes) --to_come_;
      return takes;
    }

   private:
    Draws& draws_;
    uint64_t left_, to_come_;
  };

  const bool shared_;
};

StatusOr<std::unique_ptr<const Codec>> CreateRandomK(int64_t elements, const Settings& settings) {
  RIVULET_ASSIGN_OR_RETURN(const int64_t k, ValuesOfFraction(elements, settings));
  return std::make_unique<RandomK>(elements, k, false);
}

StatusOr<std::unique_ptr<const Codec>> CreateSharedRandomK(int64_t elements, const Settings& settings) {
  RIVULET_ASSIGN_OR_RETURN(const int64_t k, ValuesOfFraction(elements, settings));
  return std::make_unique<RandomK>(elements, k, true);
}

RIVULET_CODEC("random_k", "as many values as `top_k`, drawn by chance and scaled up so that their mean is right",
              {FractionOfValues()}, CreateRandomK);
RIVULET_CODEC("random_k_shared",
              "as `random_k`, with one draw for all clients of a version, so that secure sums have fewer words",
              {FractionOfValues()}, CreateSharedRandomK, {kSharesPlaces});

}  // namespace
}  // namespace rivulet
