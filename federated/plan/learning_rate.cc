#include "federated/plan/learning_rate.h"

#include <cmath>
#include <numbers>

#include "federated/plan/number.h"

namespace rivulet {
namespace {

// sin² of z in [0, π/2], by the series of sin: its eleven terms leave an error below 1e-15.
// From additions and products alone, which round the same everywhere; the C library's sine differs from machine to
// machine in the last bit, and with it every weight after the first step.
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

// base ^ exponent, for a base that is known now.
Output Power(const Scope& scope, double base, Output exponent) {
  return scope.Op("Exp", {scope.Op("Mul", {exponent, Number(scope, std::log(base))})});
}

// As graph and not as code of the client: a plan may bring a schedule that no client has heard of.
Output Decay(const Scope& scope, const ScheduleConfig& schedule, Output u) {
  const Output periods = scope.Op("RealDiv", {u, Number(scope, static_cast<double>(schedule.length))});
  if (schedule.kind == "step") return Power(scope, schedule.decay_rate, scope.Op("Floor", {periods}));
  if (schedule.kind == "exponential") return Power(scope, schedule.decay_rate, periods);
  const Output progress = scope.Op("Minimum", {periods, Number(scope, 1)});
  Output left;
  if (schedule.kind == "cosine") {
    const Output angle = scope.Op("Mul", {progress, Number(scope, std::numbers::pi / 2)});
    left = scope.Op("Sub", {Number(scope, 1), SquaredSine(scope, angle)});
  } else {
    left = scope.Op("Sub", {Number(scope, 1), progress});
    if (schedule.power != 1) {
      // At the end nothing is left, and has no logarithm.
      const Output log = scope.Op("Log", {scope.Op("Maximum", {left, Number(scope, 1e-300)})});
      left = scope.Op("Exp", {scope.Op("Mul", {log, Number(scope, schedule.power)})});
    }
  }
  return scope.Op("AddV2", {scope.Op("Mul", {left, Number(scope, 1 - schedule.end)}), Number(scope, schedule.end)});
}

}  // namespace

bool IsConstant(const ScheduleConfig& schedule) { return schedule.kind == "constant" && schedule.warmup == 0; }

Output LearningRateAt(const Scope& caller, const ScheduleConfig& schedule, double learning_rate, Output t) {
  const Scope scope = caller.SubScope("learning_rate");
  Output rate = Number(scope, learning_rate);
  Output u = t;
  if (schedule.warmup > 0) {
    const Output warmup = Number(scope, static_cast<double>(schedule.warmup));
    const Output warm = scope.Op("RealDiv", {scope.Op("AddV2", {t, Number(scope, 1)}), warmup});
    rate = scope.Op("Mul", {rate, scope.Op("Minimum", {warm, Number(scope, 1)})});
    u = scope.Op("Maximum", {scope.Op("Sub", {t, warmup}), Number(scope, 0)});
  }
  return schedule.kind == "constant" ? rate : scope.Op("Mul", {rate, Decay(scope, schedule, u)});
}

}  // namespace rivulet
