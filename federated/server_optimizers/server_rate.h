// Learning rate of the server by version: server.schedule.
#pragma once

#include <cstdint>

#include "engine/base/status.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

// INVALID_ARGUMENT: an unknown kind, an option out of range.
Status CheckServerSchedule(const ScheduleConfig& config);

// The rate for making `version`, counted from 1, by a schedule that was checked: with t = version − 1,
//
//   learning_rate · min(1, (t + 1) / warmup) · decay(max(0, t − warmup))
//
// with the decay of the schedule (federated/server_optimizers/schedules).
double ServerLearningRate(const ServerConfig& server, int64_t version);

}  // namespace rivulet
