// TensorBoard log of a run under way: `--logdir DIR`.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "coordinator/coordinator.h"
#include "coordinator/history/history.h"
#include "engine/base/mutex.h"
#include "engine/data/event_file.h"

namespace rivulet {

// Each round's numbers in DIR/RUN_ID as soon as it has closed, under the tags of `runs export --tensorboard`
// (inspect/tensorboard.h), and how its clients are spread as soon as their rows are in the history; with its start the
// graph and the hyperparameters, with its end what its models say. A run that is resumed goes on in a file of its own
// beside the first. Thread-safe. A folder that takes no more is told once and ends the log, not the run.
class SummaryLog {
 public:
  // `tell` is called if the log ended early, on any thread.
  explicit SummaryLog(std::function<void(const std::string& sentence)> tell) : tell_(std::move(tell)) {}

  // Adds to what `observer` does already; must outlive the coordinator.
  void Observe(CoordinatorObserver& observer);
  // Before the first round, once the run's rows are in the history at `db`. Errors are the file system's.
  Status Begin(const std::string& logdir, const std::string& db, const std::string& run_id);
  // Once the run's last rows are there. Does nothing without Begin.
  void End(const std::string& db, const std::string& run_id);

 private:
  void Add(SummaryEvent event);
  Status AddEnd(const std::string& db, const std::string& run_id);
  // Of the next committed rounds whose rows are there, `most` at most.
  Status AddClients(History& history, int64_t most) REQUIRES(reading_);
  void AddClientsNow();

  const std::function<void(const std::string&)> tell_;
  Mutex mutex_;
  std::unique_ptr<SummaryWriter> writer_ GUARDED_BY(mutex_);  // null: nothing is logged
  std::string run_id_;
  // Of what is read back: by whoever closes a round, one at a time.
  Mutex reading_;
  std::unique_ptr<History> history_ GUARDED_BY(reading_);
  int64_t clients_told_ GUARDED_BY(reading_) = 0;  // round whose clients were told last
  std::chrono::steady_clock::time_point looked_ GUARDED_BY(reading_);
};

}  // namespace rivulet
