// "top_k": of d values the k = ceil(fraction × d) that are largest in magnitude (Aji and Heafield 2017,
// arXiv:1704.05021; Stich et al. 2018, arXiv:1809.07599), as sparse_values.h has them travel. Of equal ones the first
// are sent, so that the bytes are a function of the values.
#include <bit>
#include <vector>

#include "federated/codecs/sparse_values.h"

namespace rivulet {
namespace {

constexpr int kLowBits = 15;  // of a magnitude's 31

// Ordered as magnitudes are: NaN above infinity, so that what is no number is sent, and refused.
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
    uint32_t least = 0;  // magnitude of the last of the k
    size_t ties = 0;     // how many of just that are among them
  };
  // By counting, first the upper bits and then the lower ones of those that share the k-th's: no copy to sort.
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
