// Low-rank adapters of a layout, found by their names: a pair of matrices whose product stands beside a weight.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "federated/weights/layout.h"

namespace rivulet {

// A is [rows, rank] and B [rank, columns], each row-major. Of PEFT's layout both are transposed.
struct AdapterPair {
  const Slice* a = nullptr;  // of the layout, which outlives it
  const Slice* b = nullptr;
  int64_t rows = 0, rank = 0, columns = 0;
  bool transposed = false;  // A is stored as [rank, rows] and B as [columns, rank]

  bool trains_both() const;
};

// Pairs "<name>/lora_A" and "<name>/lora_B" of native models, and PEFT's "<module>.lora_A.weight" and
// "<module>.lora_B.weight", or "<module>.lora_embedding_A" and "…_B", in arena order of A. A stack of pairs, whose
// batch axes lead in both, counts as rows and columns only where one of the two has them; others are left out.
std::vector<AdapterPair> AdapterPairsOf(const ModelLayout& layout);

// The names of matrices of pairs that the base model has, where the layout's own variables have the other one: of
// adapters with A frozen and kept beside the other frozen tensors. AdapterPairsOf leaves these pairs out.
std::vector<std::string> AdapterHalvesInBase(const ModelLayout& layout);

}  // namespace rivulet
