// Runs of a sweep in one history, one after the other, in one process that loads data and programs once. Runs already
// in the history are not repeated, and a stopped or killed one resumes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/history/rows.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "federated/scenario/scenario.h"
#include "simulations/simulator.h"

namespace rivulet {

struct TrialOptions {
  std::string db_path;
  std::string tag;                                             // that every run of the sweep gets
  int workers = 0;                                             // as SimulationOptions
  std::function<void(const std::string& run_id)> on_run = {};  // of each run, before its first round
};

struct TrialResult {
  std::string run_id;
  bool was_done = false;  // found finished in the history
  Status status;          // why it failed: of clients, models and data, not of the history
};

// Not thread-safe, but for Stop.
class Trials {
 public:
  // `row_bytes`: as SharedRuns.
  Trials(TrialOptions options, int64_t row_bytes) : options_(std::move(options)), shared_(row_bytes) {}

  // The simulated run that says what `scenario` says: that of the history where it is finished, and goes on where it is
  // not, also where it failed; else a new one. CANCELLED after Stop. Another error is one of the scenario, its data or
  // the history, before the first round; what ends a run later is its result's.
  StatusOr<TrialResult> Run(const Scenario& scenario, const CoordinatorObserver& observer);
  // The one that Run would take or go on with, if there is one, and else a row without an id. Runs nothing, and makes
  // no history where there is none.
  StatusOr<RunRow> Find(const Scenario& scenario);
  // From another thread: stops the present run and all later ones.
  void Stop();

 private:
  StatusOr<std::shared_ptr<Simulation>> Begin(const Scenario& scenario, const std::string& resume,
                                              const CoordinatorObserver& observer);
  Status Tag(const std::string& run_id);

  const TrialOptions options_;
  const SharedRuns shared_;
  Mutex mutex_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::shared_ptr<Simulation> running_ GUARDED_BY(mutex_);
};

// Whether a run that was stored with `config` is one of `scenario`: it says the same, but for how many clients there
// are where only the data told.
bool SaysTheSame(const std::string& config, const Scenario& scenario);

}  // namespace rivulet
