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

// Writes each round's numbers to DIR/RUN_ID when it closes, under the tags of `runs export --tensorboard`
// (inspect/tensorboard.h), and the clients' distributions once their rows are in the history. At the start it adds the
// graph and the hyperparameters, at the end the models' summaries. A resumed run continues in a new file beside the
// first. Thread-safe. A folder that cannot be written is reported once and ends the log, not the run.
class SummaryLog {
 public:
  // `tell` is called if the log ended early, on any thread.
  explicit SummaryLog(std::function<void(const std::string& sentence)> tell) : tell_(std::move(tell)) {}

  // Adds its handlers to those of `observer`; must outlive the coordinator.
  void Observe(CoordinatorObserver& observer);
  // Call it before the first round, once the run's rows are in the history at `db`. Errors are the file system's.
  Status Begin(const std::string& logdir, const std::string& db, const std::string& run_id);
  // Call it once the run's last rows are written. Does nothing without Begin.
  void End(const std::string& db, const std::string& run_id);

 private:
  void Add(SummaryEvent event);
  Status AddEnd(const std::string& db, const std::string& run_id);
  // Adds the clients of the next committed rounds with rows, at most `most` rounds.
  Status AddClients(History& history, int64_t most) REQUIRES(reading_);
  void AddClientsNow();

  const std::function<void(const std::string&)> tell_;
  Mutex mutex_;
  std::unique_ptr<SummaryWriter> writer_ GUARDED_BY(mutex_);  // null: nothing is logged
  std::string run_id_;
  // Used by the thread that closes a round, one at a time.
  Mutex reading_;
  std::unique_ptr<History> history_ GUARDED_BY(reading_);
  int64_t clients_told_ GUARDED_BY(reading_) = 0;  // latest round whose clients were logged
  std::chrono::steady_clock::time_point looked_ GUARDED_BY(reading_);
};

}  // namespace rivulet
