// Scenarios shipped with the program (simulations/scenarios, and those of simulations/papers), found by name from any
// folder.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

struct ShippedScenario {
  std::string name;  // "mnist-fedavg"
  std::string path;
  std::string about;  // the comment at the begin of its file
};

enum class ShippedFolder { kScenarios, kPapers };  // simulations/scenarios, simulations/papers

// In byte order of their names: the installed ones beside the program, or else those of its source tree; empty if
// neither exists.
std::vector<ShippedScenario> ShippedIn(ShippedFolder folder);

// Whether a command's scenario argument may be such a name: without a folder, an ending or a leading dash.
bool IsScenarioName(std::string_view scenario);
// From either folder. NOT_FOUND: no such scenario (names the nearest).
StatusOr<ShippedScenario> FindShippedScenario(std::string_view name);
// Whether an argument for a command that also takes models is a scenario: a .toml file, or such a name.
bool IsScenario(std::string_view what);
// KEY=VALUE texts as pairs. A usage error names --set.
StatusOr<std::vector<std::pair<std::string, std::string>>> OverridesOf(const std::vector<std::string>& sets);
// A scenario by its file, or by such a name if there is no such file. NOT_FOUND: neither; others as
// Scenario::Load.
StatusOr<Scenario> LoadByFileOrName(const std::string& scenario,
                                    const std::vector<std::pair<std::string, std::string>>& overrides = {},
                                    ScenarioPart part = ScenarioPart::kAll);
// The command that gets the data of the shipped scenario in this file, from its comment ("Data: …"); "" if there is
// none, or the file is no shipped scenario.
std::string DataCommandOf(const std::string& path);
// The base of relative paths in shipped scenarios, since their own folder may be read-only: RIVULET_DATA, or else the
// working directory.
std::string ShippedDataFolder();

}  // namespace rivulet
