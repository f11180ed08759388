// decay_rate ^ floor(u / length).
#include "federated/server_optimizers/schedule.h"

namespace rivulet {
namespace {

// Repeated squaring, in as many steps as the exponent has bits.
double WholePower(double base, int64_t exponent) {
  double power = 1;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) power *= base;
  }
  return power;
}

double ServerStepDecay(const Settings& settings, int64_t u) {
  return WholePower(settings.number("decay_rate"), u / settings.integer("length"));
}

RIVULET_SERVER_SCHEDULE(
    server_step_registration,
    {.name = "step",
     .doc = "multiplies it by `decay_rate` after every `length`",
     .settings = {ServerScheduleLength(),
                  WithExample(Float("decay_rate", 0.5, "Factor of the rate after each `length`.").Above(0).Below(1e6),
                              "0.1")},
     .decay = ServerStepDecay});

}  // namespace
}  // namespace rivulet
