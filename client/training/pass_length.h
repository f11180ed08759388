// Number of steps that a pass takes over `size` examples: in all its epochs, or in the `epochs` that a task does.
#pragma once

#include <cstdint>

#include "engine/program/lane_schedule.h"
#include "federated/plan/pass.h"

namespace rivulet {

inline int64_t StepsOf(const LocalPass& pass, int64_t size, int64_t epochs) {
  return StepsOf(size, pass.batch_size, epochs, pass.max_steps);
}
inline int64_t StepsOf(const LocalPass& pass, int64_t size) { return StepsOf(pass, size, pass.epochs); }

}  // namespace rivulet
