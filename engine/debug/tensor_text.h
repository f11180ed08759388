// Tensors as NumPy prints them.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "engine/tensor/tensor.h"

namespace rivulet {

struct TensorTextOptions {
  // Elements from which on only the first and last three of each axis are printed; 0: never.
  int64_t summarise_above = 1000;
  // Values in this closed range stand between asterisks.
  std::optional<std::pair<double, double>> highlight;
};

// "[[ 0.1  -2 ]\n [ nan  3 ]]": columns aligned, up to 8 significant digits, booleans as words. Elements without
// numbers (handles) print as "-".
std::string TensorText(const TensorView& tensor, const TensorTextOptions& options = {});

}  // namespace rivulet
