// Learning-rate schedules as graph nodes, so that a plan carries them and every machine computes the same.
#pragma once

#include "engine/graph/scope.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

// Whether the rate is one number for the whole run.
bool IsConstant(const ScheduleConfig& schedule);

// The learning rate at time `t` = 0, 1, 2, … (a float64 scalar; rounds or a task's steps), as a float64 scalar:
//
//   learning_rate · min(1, (t + 1) / warmup) · decay(max(0, t − warmup)),  with p = min(1, u / length) in
//   step         decay_rate ^ floor(u / length)
//   exponential  decay_rate ^ (u / length)
//   cosine       end + (1 − end) · (1 + cos(π p)) / 2      Loshchilov and Hutter, ICLR 2017, without restarts
//   polynomial   end + (1 − end) · (1 − p) ^ power
//
// Of our own kernels only: sums, products, Exp and Log.
Output LearningRateAt(const Scope& scope, const ScheduleConfig& schedule, double learning_rate, Output t);

}  // namespace rivulet
