// decay_rate ^ (u / length).
#include "federated/plan/schedule.h"

namespace rivulet {
namespace {

Output ExponentialDecay(const Scope& scope, const Settings& settings, Output u) {
  return PowerOf(scope, settings.number("decay_rate"), SchedulePeriods(scope, settings, u));
}

RIVULET_SCHEDULE(exponential_registration, {.name = "exponential",
                                            .doc = "multiplies it by `decay_rate` gradually over every `length`",
                                            .settings = {ScheduleLength(), ScheduleDecayRate()},
                                            .decay = ExponentialDecay});

}  // namespace
}  // namespace rivulet
