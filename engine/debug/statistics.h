// Statistics of a tensor's values, and conditions on them for a debugger.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

// Counts cover all elements; extremes, mean and deviation cover the finite ones, and are 0 if there are none.
struct TensorStatistics {
  int64_t elements = 0;
  int64_t nan = 0, negative_infinite = 0, positive_infinite = 0;
  int64_t negative = 0, zero = 0, positive = 0;  // finite elements only
  double min = 0, max = 0, mean = 0, deviation = 0;
  int64_t infinite() const { return negative_infinite + positive_infinite; }
  int64_t finite() const { return elements - nan - infinite(); }
};
// For types without numbers (variant, string) only the number of elements is set.
TensorStatistics StatisticsOf(const TensorView& tensor);

// Returns element `i` as a double, exact except for integers beyond 2^53. 0 for types without numbers.
double ElementOf(const TensorView& tensor, int64_t i);

// A condition: "has_nan", "has_inf", "has_inf_or_nan", "abs>1e3", "max>10", "min<-10" (blanks are allowed anywhere).
class WatchCondition {
 public:
  // Parses a condition. INVALID_ARGUMENT lists the forms.
  static StatusOr<WatchCondition> Parse(std::string_view text);
  // Returns true if the condition holds. A comparison with NaN is false.
  bool Holds(const TensorStatistics& statistics) const;
  const std::string& text() const { return text_; }

 private:
  enum class Kind { kNan, kInf, kInfOrNan, kAbs, kMax, kMin };
  Kind kind_ = Kind::kNan;
  double bound_ = 0;
  std::string text_;
};

}  // namespace rivulet
