// decay_rate ^ floor(u / length).
#include "federated/plan/schedule.h"

namespace rivulet {
namespace {

Output StepDecay(const Scope& scope, const Settings& settings, Output u) {
  return PowerOf(scope, settings.number("decay_rate"), scope.Op("Floor", {SchedulePeriods(scope, settings, u)}));
}

RIVULET_SCHEDULE(step_registration, {.name = "step",
                                     .doc = "multiplies it by `decay_rate` after every `length`",
                                     .settings = {ScheduleLength(), ScheduleDecayRate()},
                                     .decay = StepDecay});

}  // namespace
}  // namespace rivulet
