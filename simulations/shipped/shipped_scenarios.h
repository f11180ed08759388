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
  std::string about;  // the comment that its file begins with
};

enum class ShippedFolder { kScenarios, kPapers };  // simulations/scenarios, simulations/papers

// In byte order of their names: what is installed beside the program, or else the files of the tree that it was built
// in; none where neither is there.
std::vector<ShippedScenario> ShippedIn(ShippedFolder folder);

// Whether a scenario that a command is given may be such a name: without a folder, an ending and a dash before it.
bool IsScenarioName(std::string_view scenario);
// Of either folder. NOT_FOUND: no such scenario, with the nearest name.
StatusOr<ShippedScenario> FindShippedScenario(std::string_view name);
// Whether what a command is given that takes models too is a scenario: a file that ends in .toml, or such a name.
bool IsScenario(std::string_view what);
// KEY=VALUE texts as pairs. A usage error names --set.
StatusOr<std::vector<std::pair<std::string, std::string>>> OverridesOf(const std::vector<std::string>& sets);
// A scenario by its file, or by such a name where there is no file of that name. NOT_FOUND: neither; else as
// Scenario::Load.
StatusOr<Scenario> LoadByFileOrName(const std::string& scenario,
                                    const std::vector<std::pair<std::string, std::string>>& overrides = {},
                                    ScenarioPart part = ScenarioPart::kAll);
// The command that gets the data of the shipped scenario of this file, as its comment says it ("Data: …"); "" where it
// does not, or the file is none of them.
std::string DataCommandOf(const std::string& path);
// Where relative paths of shipped scenarios start, as the folder that they lie in may be nobody's to write to:
// RIVULET_DATA, or else the working directory.
std::string ShippedDataFolder();

}  // namespace rivulet
