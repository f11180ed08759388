// end + (1 − end) · (1 + cos(π p)) / 2 with p = min(1, u / length) (Loshchilov and Hutter, ICLR 2017), without
// restarts.
#include <numbers>

#include "federated/plan/number.h"
#include "federated/plan/schedule.h"

namespace rivulet {
namespace {

// sin² of z in [0, π/2], by the series of sin: its eleven terms leave an error below 1e-15. It uses additions and
// products alone, which round the same everywhere. The C library's sine differs between machines in the last bit, and
// would change every weight after the first step.
Output SquaredSine(const Scope& scope, Output z) {
  constexpr int kTerms = 11;
  const Output square = scope.Op("Square", {z});
  Output sum = Number(scope, 1);
  // sin z = z · (1 − z²/(2·3) · (1 − z²/(4·5) · (1 − …)))
  for (int k = kTerms; k >= 1; --k) {
    const Output term = scope.Op("Mul", {square, Number(scope, -1.0 / (2.0 * k * (2.0 * k + 1)))});
    sum = scope.Op("AddV2", {scope.Op("Mul", {term, sum}), Number(scope, 1)});
  }
  return scope.Op("Square", {scope.Op("Mul", {z, sum})});
}

Output CosineDecay(const Scope& scope, const Settings& settings, Output u) {
  const Output progress = ScheduleProgress(scope, settings, u);
  const Output angle = scope.Op("Mul", {progress, Number(scope, std::numbers::pi / 2)});
  return TowardsEnd(scope, settings, scope.Op("Sub", {Number(scope, 1), SquaredSine(scope, angle)}));
}

RIVULET_SCHEDULE(cosine_registration, {.name = "cosine",
                                       .doc = "moves it to `end` within `length`, along half a cosine",
                                       .settings = {ScheduleLength(), ScheduleEnd()},
                                       .decay = CosineDecay});

}  // namespace
}  // namespace rivulet
