// Distance between two tensors of one shape.
#pragma once

#include <cstdint>

#include "engine/tensor/tensor.h"

namespace rivulet {

struct TensorDifference {
  int64_t elements = 0;
  int64_t differing = 0;        // elements with different values; two NaNs count as equal, also +0 and -0
  int64_t only_one_finite = 0;  // of these: NaN or infinite on one side only, or infinities of different sign
  // Over the elements that are finite on both sides; 0 if there are none.
  double largest = 0;   // |a - b|
  double mean = 0;      // of |a - b|
  double relative = 0;  // ||a - b|| / ||a||; infinite if a is all zeros and b is not
};
// Compares values as doubles. `a` and `b` must have the same shape; their dtypes may differ.
TensorDifference DifferenceOf(const TensorView& a, const TensorView& b);

}  // namespace rivulet
