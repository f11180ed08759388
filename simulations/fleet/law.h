// Distributions of a quantity among devices or tasks, as a scenario writes them ([devices]):
//
//   2e9                        a constant
//   uniform(LEAST, MOST)       evenly between them
//   lognormal(MEDIAN, D)       MEDIAN × e^(D × a normal draw)
//   half_normal(SCALE)         SCALE × |a normal draw|
//   exponential(MEAN)          −MEAN × ln(an even draw)
#pragma once

#include <string_view>

#include "engine/base/draws.h"
#include "engine/base/status.h"

namespace rivulet {

class Law {
 public:
  // INVALID_ARGUMENT names `key`: no such law, another number of parameters, or one that is not above 0 (LEAST and D
  // may be 0).
  static StatusOr<Law> Parse(std::string_view text, std::string_view key);
  // Draws a value, not below 0. The same on every machine.
  double Draw(Draws draws) const;
  double mean() const;

 private:
  enum class Kind : uint8_t { kConstant, kUniform, kLognormal, kHalfNormal, kExponential };
  Kind kind_ = Kind::kConstant;
  double first_ = 0, second_ = 0;  // parameters, in the written order
};

}  // namespace rivulet
