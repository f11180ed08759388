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
  static constexpr char kEllipsis = '.';  // represents "..." in the strings below
  std::vector<std::string> inputs;
  std::string output;

  // Parses an equation. INVALID_ARGUMENT: a character that is not a letter, several "..." in a term, a number of terms
  // other than `operands`, an output label that no operand has, or "..." only in the output.
  static StatusOr<EinsumEquation> Parse(std::string_view equation, size_t operands);

  // Joins the terms again, with "..." and "->".
  std::string ToString() const;
};

// The axes of every operand and of the output as labels: the letters, and labels from 256 on for the axes of "...", of
// which the last one is 256. `sizes[label]` is the label's size, unknown (-1) if no operand determines it. An operand's
// axis that is broadcast to that size has size 1 in the operand.
struct EinsumLabels {
  std::vector<std::vector<int>> inputs;
  std::vector<int> output;
  std::vector<int64_t> sizes;  // by label
};

// Resolves the labels. The operands' ranks must be known. INVALID_ARGUMENT: the number of axes differs from that of
// labels, or sizes of one label differ (those of "..." may be broadcast).
StatusOr<EinsumLabels> ResolveEinsum(const EinsumEquation& equation, const std::vector<Shape>& shapes);

}  // namespace rivulet
