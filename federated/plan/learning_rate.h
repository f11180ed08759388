// Learning rate of a client over time, as graph nodes of the plan, so that every machine computes the same.
#pragma once

#include <utility>

#include "engine/base/status.h"
#include "engine/graph/scope.h"
#include "federated/plan/schedule.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

// Returns true if the rate is one number for the whole run.
bool IsConstant(const ScheduleConfig& schedule);

// Immutable.
class LearningRate {
 public:
  // INVALID_ARGUMENT: an unknown kind of schedule, an option out of range.
  static StatusOr<LearningRate> Create(const ScheduleConfig& config, double learning_rate);

  // The rate at time `t` = 0, 1, 2, … (a float64 scalar; rounds or a task's steps), as a float64 scalar:
  //
  //   learning_rate · min(1, (t + 1) / warmup) · decay(max(0, t − warmup))
  //
  // with the decay of the schedule (federated/plan/schedules).
  Output At(const Scope& scope, Output t) const;

 private:
  LearningRate(const Schedule* schedule, Settings settings, int64_t warmup, double learning_rate)
      : schedule_(schedule), settings_(std::move(settings)), warmup_(warmup), learning_rate_(learning_rate) {}

  const Schedule* schedule_;
  Settings settings_;
  int64_t warmup_;
  double learning_rate_;
};

}  // namespace rivulet
