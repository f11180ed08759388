// Replay of a stored run from its history. For each version it repeats the tasks with recorded updates, each from its
// base version. Nothing is drawn, and connections and speeds have no influence: the resulting versions must equal the
// run's, to the bit. A replay verifies a simulated run, or a deployed one given its clients' data.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/profile/step_monitor.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

struct ReplayOptions {
  Scenario scenario;  // of the stored run, from ScenarioOfStoredRun
  std::string db_path;
  std::string run;  // its id, its name, or "latest"
  int workers = 0;  // 0: one per core
  // The versions to repeat, both inclusive; 0: the last one. A part that does not begin with 1 starts from the previous
  // version's model, which the run must have stored.
  int64_t first = 1, last = 0;
  // Called after each reproduced version, one at a time.
  std::function<void(int64_t version, int64_t versions)> on_version;
  Instruments instruments;
};

struct ReplayResult {
  std::string run_id;
  int64_t versions = 0, tasks = 0;  // that were repeated
  Digest model_digest;              // of the last version
};

// Writes nothing. DATA_LOSS names the first version that differs and both digests, or the first task that differs from
// its row. NOT_FOUND: no such history or run. FAILED_PRECONDITION: the run has no recorded version, or one of its tasks
// cannot be repeated here; for a part: the previous version is not stored, or is not all that its tasks start from.
// INVALID_ARGUMENT: no such part.
StatusOr<ReplayResult> Replay(const ReplayOptions& options);

}  // namespace rivulet
