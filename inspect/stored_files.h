// Check of the files of a run with external training (model.arrays), whose tasks cannot be repeated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

struct StoredFiles {
  int64_t versions = 0;      // that are stored
  std::string model_digest;  // of the newest of them
  std::optional<Digest> base;
};

// Reads the versions of rounds `first` to `last` of a run, and its base, and compares their digests with the history's
// and the plan's. `scenario` is the run's, and has the base's path. FAILED_PRECONDITION: no version of these rounds is
// stored, or the base is another. DATA_LOSS: a version's digest differs, or the plan is damaged. Others as
// PlanOfStoredRun, ReadServerState, Base::Open.
StatusOr<StoredFiles> CheckStoredFiles(const std::string& db, const std::string& run_id, const Scenario& scenario,
                                       int64_t first, int64_t last);

}  // namespace rivulet
