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
  std::vector<std::string> reasons;  // phrases, the worst first; of a healthy run small faults or none
};

// Failed: its status is. Attention: it was interrupted or is paused, attempts were abandoned, more than one task in
// twenty failed or was refused, its training loss is no number, or its first metric has fallen far below its best (an
// accuracy by 0.1, a loss to twice its least). `pause`: null where nobody has paused it.
Health HealthOf(const RunOverview& run, const Pause* pause);

}  // namespace rivulet
