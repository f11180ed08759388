// end + (1 − end) · (1 + cos(π p)) / 2 with p = min(1, u / length) (Loshchilov and Hutter, ICLR 2017), without
// restarts.
#include <algorithm>
#include <numbers>

#include "federated/server_optimizers/schedule.h"

namespace rivulet {
namespace {

// sin² of z in [0, π/2], by the series of sin: its eleven terms leave an error below 1e-15. The C library's sine
// differs between machines in the last bit, and would change every weight.
double SquaredSine(double z) {
  constexpr int kTerms = 11;
  const double square = z * z;
  double sum = 1;
  // sin z = z · (1 − z²/(2·3) · (1 − z²/(4·5) · (1 − …)))
  for (int k = kTerms; k >= 1; --k) sum = 1 - square / (2.0 * k * (2.0 * k + 1)) * sum;
  return (z * sum) * (z * sum);
}

double ServerCosineDecay(const Settings& settings, int64_t u) {
  const double periods = ServerSchedulePeriods(settings, u), end = settings.number("end");
  const double left = 1 - SquaredSine(std::min(1.0, periods) * std::numbers::pi / 2);
  return end + (1 - end) * left;
}

RIVULET_SERVER_SCHEDULE(
    server_cosine_registration,
    {.name = "cosine",
     .doc = "moves it to `end` within `length`, along half a cosine",
     .settings = {ServerScheduleLength(),
                  WithExample(Float("end", 0, "Share of the rate that is left at the end.").Between(0, 1e6), "0.01")},
     .decay = ServerCosineDecay});

}  // namespace
}  // namespace rivulet
