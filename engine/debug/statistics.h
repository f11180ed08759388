// Statistics of a tensor's values, and the conditions on them that a debugger watches for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

// Of all elements; extremes, mean and deviation are of the finite ones, and 0 when there are none.
struct TensorStatistics {
  int64_t elements = 0;
  int64_t nan = 0, negative_infinite = 0, positive_infinite = 0;
  int64_t negative = 0, zero = 0, positive = 0;  // finite ones
  double min = 0, max = 0, mean = 0, deviation = 0;
  int64_t infinite() const { return negative_infinite + positive_infinite; }
  int64_t finite() const { return elements - nan - infinite(); }
};
// Types without numbers (variant, string) have elements only.
TensorStatistics StatisticsOf(const TensorView& tensor);

// Element `i` as a double: exact save for integers beyond 2^53. 0 for types without numbers.
double ElementOf(const TensorView& tensor, int64_t i);

// "has_nan", "has_inf", "has_inf_or_nan", "abs>1e3", "max>10", "min<-10" (with blanks anywhere).
class WatchCondition {
 public:
  // INVALID_ARGUMENT lists the forms.
  static StatusOr<WatchCondition> Parse(std::string_view text);
  // NaN fulfils no comparison.
  bool Holds(const TensorStatistics& statistics) const;
  const std::string& text() const { return text_; }

 private:
  enum class Kind { kNan, kInf, kInfOrNan, kAbs, kMax, kMin };
  Kind kind_ = Kind::kNan;
  double bound_ = 0;
  std::string text_;
};

}  // namespace rivulet
