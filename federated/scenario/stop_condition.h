// Condition of run.stop, such as "accuracy >= 0.99".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace rivulet {

struct StopCondition {
  enum class Is : uint8_t { kBelow, kAtMost, kAbove, kAtLeast };
  std::string metric;  // "accuracy", or with a test set, "test/accuracy"
  Is is = Is::kAtLeast;
  double bound = 0;

  bool Holds(double value) const;  // false for NaN
  // Parses a metric, one of < <= > >=, and a finite number. INVALID_ARGUMENT explains the syntax.
  static StatusOr<StopCondition> Parse(std::string_view text);
};

}  // namespace rivulet
