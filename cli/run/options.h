// Options shared by `simulate`, `up` and `coordinator`: the scenario, its overrides, and the history.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "engine/base/status.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

struct ScenarioOptions {
  std::string scenario;
  std::vector<std::string> sets;  // KEY=VALUE
  std::optional<int64_t> rounds, seed;
  std::string kernels;  // "native", "portable"; "": by the scenario
  std::string db = "./rivulet.sqlite";
  std::string resume;
  ScenarioPart part = ScenarioPart::kAll;  // the part of the scenario that the command uses
};

// Declares SCENARIO.toml, --set, --rounds, --seed, --kernels and --db. `optional`: the help of an optional scenario;
// "": it is required.
void AddScenarioSettings(Command& command, ScenarioOptions* options, const std::string& optional = "");
// The same and --resume.
void AddScenarioOptions(Command& command, ScenarioOptions* options, const std::string& optional = "");

// The scenario with --set, --rounds and --seed applied: by its file, by the name of a shipped one
// (shipped_scenarios.h), or for a resumed run as in ScenarioToResume. A mistake in the file or the options is a usage
// error; a missing file or run is not.
StatusOr<Scenario> LoadScenario(const ScenarioOptions& options);

// The arguments that reproduce these options, for a shell: "s.toml --set 'a=b c' --db x.sqlite". `resume` replaces
// --resume.
std::string ShellArguments(const ScenarioOptions& options, const std::string& resume);
// The same for exec.
std::vector<std::string> ProcessArguments(const ScenarioOptions& options);

}  // namespace rivulet
