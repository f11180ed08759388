#include "federated/weights/adapter_pairs.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace rivulet {
namespace {

struct NamePair {
  std::string_view a, b;  // suffixes of the two names
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

std::vector<std::string> AdapterHalvesInBase(const ModelLayout& layout) {
  std::vector<std::string> halves;
  for (const VariableSpec& half : layout.base_variables()) {
    const auto has_other = [&](std::string_view ending, std::string_view other) {
      return half.name.ends_with(ending) &&
             layout.Find(half.name.substr(0, half.name.size() - ending.size()) + std::string(other)) != nullptr;
    };
    const auto is_half = [&](const NamePair& names) {
      return has_other(names.a, names.b) || has_other(names.b, names.a);
    };
    if (std::ranges::any_of(kNamePairs, is_half)) halves.push_back(half.name);
  }
  return halves;
}

}  // namespace rivulet
