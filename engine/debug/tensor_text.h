// Text of tensors in NumPy's format.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "engine/tensor/tensor.h"

namespace rivulet {

struct TensorTextOptions {
  // Above this number of elements only the first and last three of each axis are printed; 0: print all.
  int64_t summarise_above = 1000;
  // Values in this closed range are printed between asterisks.
  std::optional<std::pair<double, double>> highlight;
};

// Returns "[[ 0.1  -2 ]\n [ nan  3 ]]": aligned columns, up to 8 significant digits, booleans as words. Elements
// without numbers (handles) are printed as "-".
std::string TensorText(const TensorView& tensor, const TensorTextOptions& options = {});

}  // namespace rivulet
