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
  std::string tag;                                             // given to every run of the sweep
  int workers = 0;                                             // as in SimulationOptions
  std::function<void(const std::string& run_id)> on_run = {};  // of each run, before its first round
};

struct TrialResult {
  std::string run_id;
  bool was_done = false;  // it was already finished in the history
  Status status;          // why it failed: errors of clients, models and data, not of the history
};

// Runner of a sweep's trials. Not thread-safe, except for Stop.
class Trials {
 public:
  // `row_bytes`: as in SharedRuns.
  Trials(TrialOptions options, int64_t row_bytes) : options_(std::move(options)), shared_(row_bytes) {}

  // Gives the simulated run of `scenario`: the history's if it is finished; else that is resumed, even if it failed;
  // else a new one. CANCELLED after Stop. Other errors are those of the scenario, its data or the history, before the
  // first round; a later error is in the result.
  StatusOr<TrialResult> Run(const Scenario& scenario, const CoordinatorObserver& observer);
  // The run that Run would take or resume, else a row without an id. Runs nothing, and creates no
  // history.
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

// Whether a run stored with `config` is one of `scenario`: its configuration is equal, except for a number of clients
// that only the data determined.
bool SaysTheSame(const std::string& config, const Scenario& scenario);

}  // namespace rivulet
