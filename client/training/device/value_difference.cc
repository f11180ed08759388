#include "client/training/device/value_difference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/status.h"

namespace rivulet {
namespace {

// A value that a sum of cancelling numbers may leave on one side only.
constexpr double kNothing = 1e-6;

}  // namespace

void ValueDifference::Take(double value, double expected) {
  const bool alike = std::isfinite(value) ? std::isfinite(expected)
                                          : std::isnan(value) == std::isnan(expected) && !std::isfinite(expected);
  double by = 0;
  if (!alike) {
    by = std::numeric_limits<double>::infinity();
  } else if (std::isfinite(value)) {
    by = std::abs(value - expected);
    squares_ += by * by;
    expected_squares_ += expected * expected;
  }
  if (!alike) squares_ = by;
  if (by > worst_by_) {
    worst_by_ = by;
    worst_ = count_;
    value_ = value;
    expected_ = expected;
  }
  ++count_;
}

bool ValueDifference::IsWithin(double tolerance) const {
  const double nothing = kNothing * std::sqrt(static_cast<double>(count_));
  return std::sqrt(squares_) <= tolerance * std::sqrt(expected_squares_) + nothing;
}

std::string ValueDifference::ToString() const {
  return fmt::format("value {} of {} is {:.9g}, on the host {:.9g}; all of it is off by {:.2g} of its norm", worst_,
                     count_, value_, expected_, std::sqrt(squares_ / std::max(expected_squares_, 1e-300)));
}

}  // namespace rivulet
