// Health of a run, judged by its rows: whether it needs attention.
#pragma once

#include <string>
#include <vector>

#include "inspect/overview.h"
#include "inspect/pauses.h"

namespace rivulet {

struct Health {
  enum class Grade { kHealthy, kAttention, kFailed };
  Grade grade = Grade::kHealthy;
  std::vector<std::string> reasons;  // phrases, the worst first; a healthy run may have minor ones
};

// Failed: its status is "failed". Attention: it was interrupted or is paused, attempts were abandoned, more than one
// task in twenty failed or was refused, its training loss is not finite, or its first metric is far below its best (an
// accuracy by 0.1, a loss at twice its minimum). `pause`: null if it is not paused.
Health HealthOf(const RunOverview& run, const Pause* pause);

}  // namespace rivulet
