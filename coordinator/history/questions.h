// Queries about a run that no single view answers, for display.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coordinator/history/history.h"

namespace rivulet {

// A client with unsuccessful tasks, and how the last of them ended.
struct ClientFailuresRow {
  std::string client_id;
  int64_t tasks = 0;  // that were refused, dropped or failed
  int64_t last_round = 0;
  std::string status, error;  // of the last of them
};
// The failures of those `clients` that had any, in the given order. Searches the attempts of each from the newest back
// to its last failure, so use it for a page of clients, not for thousands.
StatusOr<std::vector<ClientFailuresRow>> ClientFailures(History& history, const std::string& run_id,
                                                        std::span<const ClientReliabilityRow> clients);

// The names of measures that clients reported of a run's versions ("evaluate/accuracy"), and all values of one of them.
StatusOr<std::vector<std::string>> ClientMetricNames(History& history, const std::string& run_id);
StatusOr<std::vector<double>> ClientMetric(History& history, const std::string& run_id, const std::string& name,
                                           int64_t round);

// Values declared by graphs of a run's trainings ("train/cluster"), from each client's last training with any.
using DeclaredNumbers = std::map<std::string, std::map<std::string, double>, std::less<>>;  // by client and by name
StatusOr<DeclaredNumbers> LastDeclared(History& history, const std::string& run_id);

// Means over the training tasks of the newest attempts that have these times; nullopt: none has. Reads at most some
// 20,000 tasks, however many a run has.
struct TaskTimes {
  std::optional<double> wait_seconds, train_seconds, upload_seconds;
};
StatusOr<TaskTimes> MeanTaskTimes(History& history, const std::string& run_id);

// A training task of one of the newest attempts, with that attempt's begin and end.
struct TaskInTime {
  int64_t round = 0, attempt = 1;
  int64_t started_unix_ms = 0, finished_unix_ms = 0;  // of the attempt
  std::string client_id, status, error;
  std::optional<double> wait_seconds, train_seconds, upload_seconds;
};
// The tasks of the newest `most` attempts, newest attempt first; 20,000 at most.
StatusOr<std::vector<TaskInTime>> NewestTasks(History& history, const std::string& run_id, int64_t most);

// The time of a committed round, by part.
struct RoundTimes {
  int64_t round = 0;
  double seconds = 0;                             // from its draw to its row
  double train = 0, aggregate = 0, evaluate = 0;  // as in RoundRow
  std::optional<double> until_next;               // to the next committed round's draw; nullopt for the newest
  // The time of each aggregated task from its offer to its last byte (wait, training and upload), in ascending order,
  // and the slowest client.
  std::vector<double> task_seconds;
  std::string slowest;
  double waited = 0, trained = 0, uploaded = 0;  // sums over them
};
// The newest `most` committed rounds of a run, newest first; fewer where those have more than 100,000 tasks.
StatusOr<std::vector<RoundTimes>> NewestRoundTimes(History& history, const std::string& run_id, int64_t most);

}  // namespace rivulet
