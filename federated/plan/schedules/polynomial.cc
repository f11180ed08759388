// end + (1 − end) · (1 − p) ^ power with p = min(1, u / length).
#include "federated/plan/number.h"
#include "federated/plan/schedule.h"

namespace rivulet {
namespace {

Output PolynomialDecay(const Scope& scope, const Settings& settings, Output u) {
  const Output progress = ScheduleProgress(scope, settings, u);
  Output left = scope.Op("Sub", {Number(scope, 1), progress});
  const double power = settings.number("power");
  if (power != 1) {
    // Avoids the logarithm of 0 at the end.
    const Output log = scope.Op("Log", {scope.Op("Maximum", {left, Number(scope, 1e-300)})});
    left = scope.Op("Exp", {scope.Op("Mul", {log, Number(scope, power)})});
  }
  return TowardsEnd(scope, settings, left);
}

Setting Power() {
  return WithExample(
      Float("power", 1, "The rate falls with (1 − t / length)^power; 1 is a straight line.").Above(0).Below(100),
      "2.0");
}

RIVULET_SCHEDULE(polynomial_registration,
                 {.name = "polynomial",
                  .doc = "moves it to `end` within `length`, by a power of the time that is left",
                  .settings = {ScheduleLength(), ScheduleEnd(), Power()},
                  .decay = PolynomialDecay});

}  // namespace
}  // namespace rivulet
