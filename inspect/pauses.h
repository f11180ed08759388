// Runs that an operator has paused, according to the audit.
#pragma once

#include <map>
#include <string>

#include "coordinator/history/history.h"

namespace rivulet {

struct Pause {
  std::string by, at, reason;  // the operator, when (UTC), "" without a reason
  std::string Text() const;    // "paused by alice: maintenance"
};

// Each run's pause that has not ended. A pause belongs to one process: it counts while the run's status is "running",
// and a run resumed from its history since is not paused.
StatusOr<std::map<std::string, Pause>> PausedRuns(History& history);

}  // namespace rivulet
