#include "engine/debug/tensor_difference.h"

#include <cmath>
#include <limits>

#include "engine/base/check.h"
#include "engine/debug/statistics.h"

namespace rivulet {

TensorDifference DifferenceOf(const TensorView& a, const TensorView& b) {
  RIVULET_CHECK(a.shape == b.shape, "tensors of unlike shapes are compared");
  TensorDifference result;
  result.elements = a.shape.elements();
  double sum = 0, squares = 0, squares_a = 0;
  int64_t finite = 0;
  for (int64_t i = 0; i < result.elements; ++i) {
    const double x = ElementOf(a, i), y = ElementOf(b, i);
    if (x == y || (std::isnan(x) && std::isnan(y))) {
      if (std::isfinite(x)) {
        ++finite;
        squares_a += x * x;
      }
      continue;
    }
    ++result.differing;
    if (!std::isfinite(x) || !std::isfinite(y)) {
      ++result.only_one_finite;
      continue;
    }
    ++finite;
    const double distance = std::abs(x - y);
    result.largest = std::max(result.largest, distance);
    sum += distance;
    squares += distance * distance;
    squares_a += x * x;
  }
  if (finite > 0) result.mean = sum / static_cast<double>(finite);
  if (squares > 0)
    result.relative = squares_a > 0 ? std::sqrt(squares / squares_a) : std::numeric_limits<double>::infinity();
  return result;
}

}  // namespace rivulet
