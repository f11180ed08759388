// A run for TensorBoard while it goes on: `--logdir DIR`.
#pragma once

#include <memory>
#include <string>

#include "coordinator/coordinator.h"
#include "engine/base/mutex.h"
#include "engine/data/event_file.h"

namespace rivulet {

// Each round's numbers in DIR/RUN_ID as soon as it has closed, under the names of `runs export --tensorboard`, which
// adds how clients are spread. A run that is resumed goes on in a file of its own beside the first. Thread-safe. A
// folder that takes no more is told once and ends the log, not the run.
class SummaryLog {
 public:
  // Adds to what `observer` does already; must outlive the coordinator.
  void Observe(CoordinatorObserver& observer);
  // Before the first round. Errors are the file system's.
  Status Begin(const std::string& logdir, const std::string& run_id);

 private:
  void Add(SummaryEvent event);

  Mutex mutex_;
  std::unique_ptr<SummaryWriter> writer_ GUARDED_BY(mutex_);  // null: nothing is logged
};

}  // namespace rivulet
