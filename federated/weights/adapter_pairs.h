// Low-rank adapters of a layout, found by name: a pair of matrices whose product is added to a weight.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "federated/weights/layout.h"

namespace rivulet {

// A is [rows, rank] and B [rank, columns], each row-major. In PEFT's layout both are transposed.
struct AdapterPair {
  const Slice* a = nullptr;  // points into the layout, which must outlive this
  const Slice* b = nullptr;
  int64_t rows = 0, rank = 0, columns = 0;
  bool transposed = false;  // A is stored as [rank, rows] and B as [columns, rank]

  bool trains_both() const;
};

// Pairs "<name>/lora_A" and "<name>/lora_B" of native models, and PEFT's "<module>.lora_A.weight" and
// "<module>.lora_B.weight", or "<module>.lora_embedding_A" and "…_B", in arena order of A. Leading batch axes of a
// stack of pairs count as rows or columns if only one matrix has them; if both have them, the pair is left out.
std::vector<AdapterPair> AdapterPairsOf(const ModelLayout& layout);

// Names of the matrices in the base whose partner is a variable of the layout: adapters with a frozen A that is stored
// with the other frozen tensors. AdapterPairsOf leaves these pairs out.
std::vector<std::string> AdapterHalvesInBase(const ModelLayout& layout);

}  // namespace rivulet
