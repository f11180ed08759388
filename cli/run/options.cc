#include "cli/run/options.h"

#include <utility>

#include "cli/shell_quote.h"
#include "coordinator/stored_run.h"
#include "engine/base/file_system.h"
#include "simulations/shipped/shipped_scenarios.h"

namespace rivulet {

void AddScenarioSettings(Command& command, ScenarioOptions* options, const std::string& optional) {
  if (optional.empty()) {
    command.Positional(
        "SCENARIO.toml", &options->scenario,
        "a scenario file (docs/reference/scenario.md lists every key), or a name of 'rivulet scenarios'");
  } else {
    command.OptionalPositional("SCENARIO.toml", &options->scenario, optional);
  }
  command
      .Repeated("--set", "KEY=VALUE", &options->sets, "set a key of the scenario, such as client.epochs=5; repeatable")
      .Option("--rounds", "N", &options->rounds, "rounds to run; as --set run.rounds=N")
      .Option("--seed", "N", &options->seed, "seed of every draw; as --set run.seed=N", {0, INT64_MAX})
      .Option("--kernels", "KIND", &options->kernels,
              "native: the fastest here; portable: the same bits on any CPU; as --set run.kernels=KIND")
      .Option("--db", "FILE", &options->db,
              "the history, created if missing; models are in FILE.models/ [./rivulet.sqlite]");
}

void AddScenarioOptions(Command& command, ScenarioOptions* options, const std::string& optional) {
  AddScenarioSettings(command, options, optional);
  command.Option("--resume", "RUN", &options->resume, "resume a run, by id, name or 'latest'");
}

StatusOr<Scenario> LoadScenario(const ScenarioOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(auto overrides, OverridesOf(options.sets));
  if (options.rounds) overrides.emplace_back("run.rounds", std::to_string(*options.rounds));
  if (options.seed) overrides.emplace_back("run.seed", std::to_string(*options.seed));
  if (!options.kernels.empty()) {
    if (options.kernels != "native" && options.kernels != "portable")
      return UsageError("--kernels takes native or portable, not '{}'", options.kernels);
    overrides.emplace_back("run.kernels", options.kernels);
  }
  StatusOr<Scenario> scenario = LoadByFileOrName(options.scenario, overrides, options.part);
  if (absl::IsInvalidArgument(scenario.status())) return AsUsageError(scenario.status());
  if (!scenario.ok() || options.resume.empty()) return scenario;
  return ScenarioOfStoredRun(options.db, options.resume, *scenario);
}

std::vector<std::string> ProcessArguments(const ScenarioOptions& options) {
  std::vector<std::string> arguments = {options.scenario};
  for (const std::string& set : options.sets) arguments.insert(arguments.end(), {"--set", set});
  if (options.rounds) arguments.insert(arguments.end(), {"--rounds", std::to_string(*options.rounds)});
  if (options.seed) arguments.insert(arguments.end(), {"--seed", std::to_string(*options.seed)});
  if (!options.kernels.empty()) arguments.insert(arguments.end(), {"--kernels", options.kernels});
  arguments.insert(arguments.end(), {"--db", options.db});
  if (!options.resume.empty()) arguments.insert(arguments.end(), {"--resume", options.resume});
  return arguments;
}

std::string ShellArguments(const ScenarioOptions& options, const std::string& resume) {
  ScenarioOptions again = options;
  again.resume = resume;
  std::string text;
  for (const std::string& argument : ProcessArguments(again)) text += (text.empty() ? "" : " ") + ShellQuote(argument);
  return text;
}

}  // namespace rivulet
