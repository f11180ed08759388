#include "cli/run/dry_run.h"

#include <algorithm>

#include "cli/quantities.h"
#include "cli/run/blame_model.h"
#include "cli/table.h"
#include "client/planned_memory.h"
#include "engine/base/available_cores.h"
#include "engine/program/program.h"
#include "setup/run_setup.h"

namespace rivulet {

Status DryRun(const Scenario& scenario, int workers, bool json) {
  const int cores = AvailableCores();
  if (workers == 0) workers = cores;
  RunSetup setup(scenario);
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Shares> shares, setup.shares());
  const auto plan = setup.plan();
  if (!plan.ok()) return BlameModel(scenario, plan.status());
  int64_t fewest = shares->size() > 0 ? INT64_MAX : 0, most = 0;
  for (int64_t client = 0; client < shares->size(); ++client) {
    const int64_t examples = std::ssize(shares->ExamplesOf(client));
    fewest = std::min(fewest, examples);
    most = std::max(most, examples);
  }
  EnterWorkerThread();
  PassPrograms programs(*plan);
  RIVULET_ASSIGN_OR_RETURN(const PlannedMemory task, PlanMemory(programs, TaskKind::kTrain, most));
  const ModelLayout& layout = *(*plan)->layout();
  const int64_t update_bytes = layout.update_elements() * static_cast<int64_t>(sizeof(float));
  // A site's sums are of 64 bits a value; more sites than cores hold none. The base model is there once for all.
  const int64_t sums = 2 * update_bytes;
  const int64_t memory = task.model + workers * (task.vectors + task.program) + std::min(workers, cores) * sums;
  const int64_t tasks = scenario.run.rounds * scenario.server.clients_per_round;
  if (json) {
    fmt::print("{}\n", JsonObject({{"name", scenario.run.name},
                                   {"algorithm", scenario.algorithm.name},
                                   {"rounds", scenario.run.rounds},
                                   {"clients", shares->size()},
                                   {"clients_per_round", scenario.server.clients_per_round},
                                   {"tasks", tasks},
                                   {"parameters", layout.parameters()},
                                   {"update_bytes", update_bytes},
                                   {"examples", shares->examples()},
                                   {"fewest_examples", fewest},
                                   {"most_examples", most},
                                   {"workers", int64_t{workers}},
                                   {"memory_bytes", memory}}));
    return absl::OkStatus();
  }
  fmt::print("{:<10} {}: {} rounds of {} of {} clients, {} tasks in all, by {}\n", "run", scenario.run.name,
             scenario.run.rounds, scenario.server.clients_per_round, shares->size(), tasks, scenario.algorithm.name);
  fmt::print("{:<10} {} parameters; an update is {}\n", "model", layout.parameters(), BytesText(update_bytes));
  fmt::print("{:<10} {}, {} to {} a client\n", "examples", shares->examples(), fewest, most);
  fmt::print(
      "{:<10} {} for {} workers: {} for the model, {} for each worker and {} for its sums; decoded examples take {} MB "
      "more at most\n",
      "memory", BytesText(memory), workers, BytesText(task.model), BytesText(task.vectors + task.program),
      BytesText(sums), scenario.run.cache_megabytes);
  return absl::OkStatus();
}

}  // namespace rivulet
