// What is known of one task beside its update. Measurements are the clock's: they stand outside the update's bytes and
// identity, so that the same training gives the same of both.
#pragma once

#include <cstdint>

#include "federated/tasks/task.h"

namespace rivulet {

struct TaskRecord {
  TaskId task;
  int64_t examples = 0, steps = 0;
  Scalars declared;  // the plan's scalars: "train_loss"
  double norm = 0;   // of the delta, by whoever folded it
  struct Measured {
    double train_seconds = 0;
    double fold_seconds = 0;  // of a site that folds
    int64_t lanes = 0;        // tasks that a device trained at once, this one among them; 0: on the host
    bool tf32 = false;        // with factors rounded to TF32
  } measured;
};

}  // namespace rivulet
