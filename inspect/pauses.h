// Runs that an operator has paused, according to the audit.
#pragma once

#include <map>
#include <string>

#include "coordinator/history/history.h"

namespace rivulet {

struct Pause {
  std::string by, at, reason;  // the operator, time (UTC), and reason, "" without one
  std::string Text() const;    // "paused by alice: maintenance"
};

// Each run's pause that has not ended. A pause belongs to one process: it counts while the run's status is "running",
// and a later resumed run is not paused.
StatusOr<std::map<std::string, Pause>> PausedRuns(History& history);

}  // namespace rivulet
