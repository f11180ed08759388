#include "simulations/sweeps/trials.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "coordinator/history/history.h"
#include "engine/base/file_system.h"

namespace rivulet {

bool SaysTheSame(const std::string& config, const Scenario& scenario) {
  const StatusOr<Scenario> stored = Scenario::ParseStored(config, "");
  if (!stored.ok()) return false;
  // The number that a simulation derived from the data and stored (simulator.cc).
  Scenario asked = scenario;
  if (asked.data.partition.clients == 0) asked.data.partition.clients = stored->data.partition.clients;
  if (asked.server.min_clients == 0) asked.server.min_clients = stored->server.min_clients;
  return asked.ToToml() == stored->ToToml();
}

namespace {

// Whether clients on separate machines take part, or did: each has sent its update, directly or through an aggregator,
// or has joined before its first task was over. Their training data are their own, whatever the scenario has.
StatusOr<bool> IsDeployed(History& history, const std::string& run_id) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<ClientRoundRow> tasks, history.ClientRounds(run_id, 1));
  if (!tasks.empty()) {
    return std::ranges::any_of(
        tasks, [](const ClientRoundRow& task) { return task.update_digest || !task.parent_id.empty(); });
  }
  RIVULET_ASSIGN_OR_RETURN(const ResumePoint point, history.FindResumePoint(run_id));
  return !point.clients.empty();
}

}  // namespace

// Among several the newest finished one, or else the newest.
StatusOr<RunRow> Trials::Find(const Scenario& scenario) {
  RunRow found;
  if (!FileSystem::Default().Exists(options_.db_path)) return found;
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(options_.db_path, History::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<RunRow> runs, history->Runs());
  for (const RunRow& run : runs) {
    if (run.foreign() || run.name != scenario.run.name || run.seed != scenario.run.seed) continue;
    if (!SaysTheSame(run.config, scenario)) continue;
    RIVULET_ASSIGN_OR_RETURN(const bool deployed, IsDeployed(*history, run.run_id));
    if (deployed) continue;
    if (found.run_id.empty()) found = run;
    if (run.status == "finished") return run;
  }
  return found;
}

Status Trials::Tag(const std::string& run_id) {
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(options_.db_path, History::Access::kReadWrite));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<TagRow> tags, history->Tags(run_id));
  for (const TagRow& tag : tags) {
    if (tag.tag == options_.tag) return absl::OkStatus();
  }
  return history->AddTag(run_id, options_.tag);
}

StatusOr<std::shared_ptr<Simulation>> Trials::Begin(const Scenario& scenario, const std::string& resume,
                                                    const CoordinatorObserver& observer) {
  SimulationOptions options{
      .scenario = scenario, .db_path = options_.db_path, .resume = resume, .workers = options_.workers};
  options.shared = &shared_;
  options.observer = observer;
  RIVULET_ASSIGN_OR_RETURN(std::unique_ptr<Simulation> simulation, Simulation::Create(std::move(options)));
  return std::shared_ptr<Simulation>(std::move(simulation));
}

StatusOr<TrialResult> Trials::Run(const Scenario& scenario, const CoordinatorObserver& observer) {
  RIVULET_ASSIGN_OR_RETURN(const RunRow known, Find(scenario));
  TrialResult result{.run_id = known.run_id, .was_done = known.status == "finished", .status = {}};
  if (result.was_done) {
    RIVULET_RETURN_IF_ERROR(Tag(result.run_id));
    return result;
  }
  RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<Simulation> simulation, Begin(scenario, known.run_id, observer));
  result.run_id = simulation->run_id();
  // At once, so that a killed process leaves a run that is found later.
  RIVULET_RETURN_IF_ERROR(Tag(result.run_id));
  if (options_.on_run) options_.on_run(result.run_id);
  bool stopped;
  {
    MutexLock lock(mutex_);
    running_ = simulation;
    stopped = stopped_;
  }
  if (stopped) simulation->Stop();
  result.status = simulation->Run().status();
  {
    MutexLock lock(mutex_);
    running_.reset();
    stopped = stopped_;
  }
  simulation.reset();  // closes the history
  if (stopped && absl::IsCancelled(result.status)) return result.status;
  return result;
}

void Trials::Stop() {
  std::shared_ptr<Simulation> running;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    running = running_;
  }
  if (running != nullptr) running->Stop();
}

}  // namespace rivulet
