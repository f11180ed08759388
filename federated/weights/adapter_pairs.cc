#include "federated/weights/adapter_pairs.h"

#include <array>
#include <string>
#include <string_view>

namespace rivulet {
namespace {

struct NamePair {
  std::string_view a, b;  // endings of the two names
  bool transposed;
};
constexpr std::array<NamePair, 3> kNamePairs = {{{"/lora_A", "/lora_B", false},
                                                 {".lora_A.weight", ".lora_B.weight", true},
                                                 {".lora_embedding_A", ".lora_embedding_B", true}}};

}  // namespace

bool AdapterPair::trains_both() const { return a->segment == Segment::kTrainable && b->segment == Segment::kTrainable; }

std::vector<AdapterPair> AdapterPairsOf(const ModelLayout& layout) {
  std::vector<AdapterPair> pairs;
  for (const Slice& a : layout.slices()) {
    for (const auto& [ending_a, ending_b, transposed] : kNamePairs) {
      if (!a.name.ends_with(ending_a)) continue;
      const std::string stem = a.name.substr(0, a.name.size() - ending_a.size());
      const Slice* const b = layout.Find(stem + std::string(ending_b));
      const Shape& of_a = a.spec.shape;
      if (b == nullptr || of_a.rank() < 2 || b->spec.shape.rank() < 2) continue;
      const Shape& of_b = b->spec.shape;
      if (!transposed && of_a.rank() > 2 && of_b.rank() > 2) continue;
      const int64_t rank = of_a.dim(transposed ? 0 : of_a.rank() - 1);
      if (rank == 0 || rank != of_b.dim(transposed ? 1 : 0)) continue;
      pairs.push_back({&a, b, a.elements / rank, rank, b->elements / rank, transposed});
    }
  }
  return pairs;
}

}  // namespace rivulet
