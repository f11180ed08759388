// rivulet runs verify: repeats a stored run and compares it with its record.
#include "cli/run/prepare_data.h"
#include "cli/run/replay_here.h"
#include "cli/runs/commands.h"
#include "coordinator/stored_run.h"
#include "federated/scenario/scenario.h"
#include "inspect/stored_files.h"

namespace rivulet {
namespace {

struct VerifyRunOptions {
  HistoryOptions history;
  std::string run;
  std::vector<std::string> sets;
  std::optional<int64_t> workers, from, to;
};

// The tasks of a run with clients' own training cannot be repeated. So its files are compared: the base, and each
// stored version.
Status VerifyFiles(const VerifyRunOptions& options, const std::string& run_id, const Scenario& scenario) {
  RIVULET_ASSIGN_OR_RETURN(
      const StoredFiles files,
      CheckStoredFiles(options.history.db, run_id, scenario, options.from.value_or(0), options.to.value_or(INT64_MAX)));
  if (options.history.json) {
    Fields fields = {
        {"run_id", run_id}, {"versions", files.versions}, {"tasks", int64_t{0}}, {"model_digest", files.model_digest}};
    if (files.base) fields.emplace_back("base_digest", files.base->Hex());
    fmt::print("{}\n", JsonObject(fields));
    return absl::OkStatus();
  }
  fmt::print("run {}: {} stored version{} as recorded; its clients trained in their own way, and no task is repeated\n",
             run_id, files.versions, files.versions == 1 ? " is" : "s are");
  fmt::print("{:<13} {}\n", "model digest", files.model_digest);
  if (files.base) fmt::print("{:<13} {}\n", "base digest", files.base->Hex());
  return absl::OkStatus();
}

Status VerifyRun(const VerifyRunOptions& options) {
  ReplayOptions replay{.db_path = options.history.db,
                       .workers = static_cast<int>(options.workers.value_or(0)),
                       .first = options.from.value_or(1),
                       .last = options.to.value_or(0)};
  {
    RIVULET_ASSIGN_OR_RETURN(const auto history, OpenToRead(options.history));
    RIVULET_ASSIGN_OR_RETURN(const RunRow run, history->ResolveRun(options.run));
    replay.run = run.run_id;
    std::vector<std::pair<std::string, std::string>> overrides;
    for (const std::string& set : options.sets) {
      const size_t equals = set.find('=');
      if (equals == std::string::npos || equals == 0)
        return UsageError("--set takes KEY=VALUE, not '{}'", Shortened(set));
      overrides.emplace_back(set.substr(0, equals), set.substr(equals + 1));
    }
    RIVULET_RETURN_IF_ERROR(CheckOurs(run));
    const std::string title = fmt::format("the stored configuration of run {}", run.run_id);
    RIVULET_ASSIGN_OR_RETURN(const Scenario stored, Scenario::ParseStored(run.config, title));
    StatusOr<Scenario> scenario = Scenario::ParseStored(run.config, title, overrides);
    if (!scenario.ok()) return AsUsageError(scenario.status());
    // Another learning rate gives another run, and nothing would be verified.
    RIVULET_RETURN_IF_ERROR(AsUsageError(CheckSamePlanKeys(stored, *scenario)));
    replay.scenario = *std::move(scenario);
  }
  if (!replay.scenario.model.arrays.empty()) return VerifyFiles(options, replay.run, replay.scenario);
  RIVULET_RETURN_IF_ERROR(PrepareDataHere(replay.scenario));
  RIVULET_ASSIGN_OR_RETURN(const ReplayResult result, ReplayHere(std::move(replay)));
  if (options.history.json) {
    fmt::print("{}\n", JsonObject({{"run_id", result.run_id},
                                   {"versions", result.versions},
                                   {"tasks", result.tasks},
                                   {"model_digest", result.model_digest.Hex()}}));
  } else {
    fmt::print("run {}: {} versions of {} tasks are as recorded\n{:<13} {}\n", result.run_id, result.versions,
               result.tasks, "model digest", result.model_digest.Hex());
  }
  return absl::OkStatus();
}

}  // namespace

Command RunsVerifyCommand() {
  auto options = std::make_shared<VerifyRunOptions>();
  Command command{
      .name = "verify",
      .summary = "Replay a run from its history, and compare every version with the recorded one, to the bit.",
      .example =
          "rivulet runs verify latest\n"
          "  rivulet runs verify latest --from 41 --to 50\n"
          "  rivulet runs verify latest --set data.train=/elsewhere/train.tfrecord"};
  command.Positional("RUN", &options->run, kRunHelp)
      .Repeated("--set", "KEY=VALUE", &options->sets,
                "give the present path of a file, such as data.train=FILE; repeatable")
      .Option("--from", "ROUND", &options->from, "first round, from the stored model of the round before [1]",
              {1, INT64_MAX})
      .Option("--to", "ROUND", &options->to, "last round [the run's last]", {1, INT64_MAX})
      .Option("--workers", "N", &options->workers, "threads that train clients [one per core]", {1, 1024});
  AddHistoryOptions(command, &options->history);
  command.run = [options] { return VerifyRun(*options); };
  return command;
}

}  // namespace rivulet
