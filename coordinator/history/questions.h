// Questions about a run that no single view answers, for those who show it to people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/history/history.h"

namespace rivulet {

// A client some of whose tasks came to nothing, and how the last of them ended.
struct ClientFailuresRow {
  std::string client_id;
  int64_t tasks = 0;  // that were refused, dropped or failed
  int64_t last_round = 0;
  std::string status, error;  // of the last
};
// Most first. Reads the run's tasks.
StatusOr<std::vector<ClientFailuresRow>> ClientFailures(History& history, const std::string& run_id);

// Means over the training tasks that say so; nullopt: none does. Reads the run's tasks.
struct TaskTimes {
  std::optional<double> wait_seconds, train_seconds, upload_seconds;
};
StatusOr<TaskTimes> MeanTaskTimes(History& history, const std::string& run_id);

}  // namespace rivulet
