// The equation of an Einsum, as NumPy and TensorFlow write it: "ij,jk->ik", "...ab,...bc->...ac", "ii->i". A label that
// occurs twice in an operand selects its diagonal; labels absent from the output are summed over. Without "->" the
// output has the axes of "..." and then, in ASCII order, the labels that occur once in all operands together.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/tensor/shape.h"

namespace rivulet {

struct EinsumEquation {
  static constexpr char kEllipsis = '.';  // in the strings below, for "..."
  std::vector<std::string> inputs;
  std::string output;

  // INVALID_ARGUMENT: a character that is no letter, more than one "..." in a term, another number of terms than
  // `operands`, an output label that no operand has, or an output with "..." where no operand has one.
  static StatusOr<EinsumEquation> Parse(std::string_view equation, size_t operands);

  // The terms joined again, with "..." and "->".
  std::string ToString() const;
};

// Each axis of every operand and of the output as a label: the letters, and one label from 256 on for each axis that
// "..." stands for, the last of them being 256. `sizes[label]` is its size, unknown (-1) where no operand tells it; an
// axis of an operand that is repeated to it has size 1 there.
struct EinsumLabels {
  std::vector<std::vector<int>> inputs;
  std::vector<int> output;
  std::vector<int64_t> sizes;  // by label
};

// The operands' ranks are known. INVALID_ARGUMENT: more or fewer axes than labels, or sizes of one label that differ
// (those of "..." may be broadcast).
StatusOr<EinsumLabels> ResolveEinsum(const EinsumEquation& equation, const std::vector<Shape>& shapes);

}  // namespace rivulet
