#include "federated/server_optimizers/server_rate.h"

#include <algorithm>
#include <numbers>

namespace rivulet {
namespace {

// sin² of z in [0, π/2], by the series of sin: its eleven terms leave an error below 1e-15. The C library's sine
// differs from machine to machine in the last bit, and with it every weight.
double SquaredSine(double z) {
  constexpr int kTerms = 11;
  const double square = z * z;
  double sum = 1;
  // sin z = z · (1 − z²/(2·3) · (1 − z²/(4·5) · (1 − …)))
  for (int k = kTerms; k >= 1; --k) sum = 1 - square / (2.0 * k * (2.0 * k + 1)) * sum;
  return (z * sum) * (z * sum);
}

// By squares, as many as the exponent has bits.
double WholePower(double base, int64_t exponent) {
  double power = 1;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) power *= base;
  }
  return power;
}

double Decay(const ScheduleConfig& schedule, int64_t u) {
  if (schedule.kind == "step") return WholePower(schedule.decay_rate, u / schedule.length);
  const double periods = static_cast<double>(u) / static_cast<double>(schedule.length);
  if (schedule.kind == "inverse") return 1 / (1 + periods);
  const double left = 1 - SquaredSine(std::min(1.0, periods) * std::numbers::pi / 2);
  return schedule.end + (1 - schedule.end) * left;
}

}  // namespace

double ServerLearningRate(const ServerConfig& server, int64_t version) {
  const ScheduleConfig& schedule = server.schedule;
  const int64_t t = version - 1;
  double rate = server.learning_rate;
  if (t < schedule.warmup) rate *= static_cast<double>(t + 1) / static_cast<double>(schedule.warmup);
  return schedule.kind == "constant" ? rate : rate * Decay(schedule, std::max<int64_t>(0, t - schedule.warmup));
}

}  // namespace rivulet
