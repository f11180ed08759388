// Distance of a vector of values from the expected ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace rivulet {

// Takes pairs of values one after another, and counts them.
class ValueDifference {
 public:
  void Take(double value, double expected);
  // ‖value − expected‖ ≤ tolerance × ‖expected‖, plus the error of float32 sums around zero; NaN and infinity agree.
  bool IsWithin(double tolerance) const;
  std::string ToString() const;  // "value 17 of 640 is 0.25, on the host 0.5; off by 0.31 of the norm"

 private:
  int64_t count_ = 0, worst_ = 0;
  double squares_ = 0, expected_squares_ = 0;
  double worst_by_ = -1, value_ = 0, expected_ = 0;
};

}  // namespace rivulet
