// The four cards at the top of a run's page: health, accuracy, slowest parts, failing clients.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "coordinator/history/questions.h"
#include "inspect/health.h"
#include "inspect/overview.h"

namespace rivulet {

struct FailingClients {
  int64_t seen = 0, failing = 0;                              // clients with a task; with a failed or refused one
  std::vector<ClientReliabilityRow> worst;                    // a few that failed most
  std::vector<std::pair<std::string, std::string>> excluded;  // a client and its status: banned or removed
};
StatusOr<FailingClients> LoadFailingClients(History& history, const std::string& run_id);

// `newest`: tasks of the newest attempts (NewestTasks). `place`: the run's id with its history's prefix (pages.h).
std::string RunCards(const RunOverview& run, const Health& health, const FailingClients& clients,
                     const std::vector<TaskInTime>& newest, const std::string& place);

}  // namespace rivulet
