// Distance between two tensors of one shape.
#pragma once

#include <cstdint>

#include "engine/tensor/tensor.h"

namespace rivulet {

struct TensorDifference {
  int64_t elements = 0;
  int64_t differing = 0;        // elements whose values differ; two NaNs are alike, +0 and -0 too
  int64_t only_one_finite = 0;  // of these: NaN or infinite on one side alone, or infinities of unlike sign
  // Of the elements that are finite on both sides; 0 when there are none.
  double largest = 0;   // |a - b|
  double mean = 0;      // of |a - b|
  double relative = 0;  // ||a - b|| / ||a||; infinite where a is all zeros and b is not
};
// `a` and `b` have one shape; their dtypes may differ, and their values are compared as doubles.
TensorDifference DifferenceOf(const TensorView& a, const TensorView& b);

}  // namespace rivulet
