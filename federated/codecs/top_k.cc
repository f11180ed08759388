// "top_k": of d values, the k = ceil(fraction × d) largest in magnitude (Aji and Heafield 2017, arXiv:1704.05021; Stich
// et al. 2018, arXiv:1809.07599). sparse_values.h defines the bytes. Among equal values the first are sent, so that the
// bytes depend on the values alone.
#include <bit>
#include <vector>

#include "federated/codecs/sparse_values.h"

namespace rivulet {
namespace {

constexpr int kLowBits = 15;  // of 31 magnitude bits

// Ordered like the magnitudes, with NaN above infinity, so that values that are not finite are sent and then refused.
uint32_t MagnitudeBits(float value) { return std::bit_cast<uint32_t>(value) & 0x7FFFFFFF; }

class TopK final : public SparseValues {
 public:
  TopK(int64_t elements, int64_t k) : SparseValues(elements, k) {}

  void Encode(std::span<const FloatRun> values, Draws&, std::string& out) const override {
    const auto [least, ties] = CutOf(values);
    Writer writer(k(), out);
    uint32_t index = 0;
    size_t equal = 0;
    EachValue(values, [&](float value) {
      const uint32_t magnitude = MagnitudeBits(value);
      if (magnitude > least || (magnitude == least && equal++ < ties)) writer.Put(index, value);
      ++index;
    });
  }

 private:
  struct Cut {
    uint32_t least = 0;  // smallest magnitude among the k
    size_t ties = 0;     // how many values of exactly that magnitude are sent
  };
  // Finds the cut by counting: first the upper bits, then the lower bits of values with the k-th's upper bits.
  Cut CutOf(std::span<const FloatRun> values) const {
    size_t left = k();
    std::vector<size_t> counts(size_t{1} << (31 - kLowBits));
    const auto from_the_top = [&] {
      size_t bin = counts.size() - 1;
      for (; counts[bin] < left; --bin) left -= counts[bin];
      return static_cast<uint32_t>(bin);
    };
    EachValue(values, [&](float value) { ++counts[MagnitudeBits(value) >> kLowBits]; });
    const uint32_t high = from_the_top();
    counts.assign(size_t{1} << kLowBits, 0);
    EachValue(values, [&](float value) {
      const uint32_t magnitude = MagnitudeBits(value);
      if (magnitude >> kLowBits == high) ++counts[magnitude & (counts.size() - 1)];
    });
    const uint32_t low = from_the_top();
    return {high << kLowBits | low, left};
  }
};

StatusOr<std::unique_ptr<const Codec>> CreateTopK(int64_t elements, const Settings& settings) {
  RIVULET_ASSIGN_OR_RETURN(const int64_t k, ValuesOfFraction(elements, settings));
  return std::make_unique<TopK>(elements, k);
}

RIVULET_CODEC("top_k", "only the values of largest magnitude, in eight bytes each", {FractionOfValues()}, CreateTopK,
              {kLosesInTheMean});

}  // namespace
}  // namespace rivulet
