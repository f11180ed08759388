// 1 / (1 + u / length) (Robbins and Monro 1951).
#include "federated/server_optimizers/schedule.h"

namespace rivulet {
namespace {

double ServerInverseDecay(const Settings& settings, int64_t u) { return 1 / (1 + ServerSchedulePeriods(settings, u)); }

RIVULET_SERVER_SCHEDULE(server_inverse_registration,
                        {.name = "inverse",
                         .doc = "divides it by 1 + t / length: half is left after `length`, a third after twice that",
                         .settings = {ServerScheduleLength()},
                         .decay = ServerInverseDecay});

}  // namespace
}  // namespace rivulet
