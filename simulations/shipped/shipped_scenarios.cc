#include "simulations/shipped/shipped_scenarios.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "engine/base/file_system.h"
#include "engine/base/nearest.h"
#include "engine/base/shown_text.h"
#include "engine/base/usage_error.h"

namespace rivulet {
namespace {

constexpr std::string_view kScenarioEnding = ".toml";

// The comment lines at the begin.
std::string CommentOf(std::string_view text) {
  std::string comment;
  while (text.starts_with('#')) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(1, end - 1);
    if (line.starts_with(' ')) line.remove_prefix(1);
    comment += (comment.empty() ? "" : "\n") + std::string(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return comment;
}

std::vector<ShippedScenario> AllShipped() {
  std::vector<ShippedScenario> all = ShippedIn(ShippedFolder::kScenarios);
  for (ShippedScenario& scenario : ShippedIn(ShippedFolder::kPapers)) all.push_back(std::move(scenario));
  return all;
}

}  // namespace

std::vector<ShippedScenario> ShippedIn(ShippedFolder which) {
  const std::string_view folder_name = which == ShippedFolder::kPapers ? "papers" : "scenarios";
  std::error_code none;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", none).parent_path();
  FileSystem& files = FileSystem::Default();
  std::vector<ShippedScenario> shipped;
  for (const char* folder : {"../share/rivulet", "../../simulations"}) {
    const std::string path = (program / folder / folder_name).lexically_normal().string();
    const auto names = files.List(path);
    if (!names.ok()) continue;
    for (const std::string& name : *names) {
      if (!name.ends_with(kScenarioEnding)) continue;
      const std::string file = JoinPath(path, name);
      const auto text = files.ReadAll(file);
      if (!text.ok()) continue;
      shipped.push_back({name.substr(0, name.size() - kScenarioEnding.size()), file, CommentOf(*text)});
    }
    if (!shipped.empty()) break;
  }
  return shipped;
}

bool IsScenarioName(std::string_view scenario) {
  return !scenario.empty() && scenario[0] != '-' && scenario.find_first_of("/.") == std::string_view::npos;
}

StatusOr<ShippedScenario> FindShippedScenario(std::string_view name) {
  std::vector<std::string> names;
  for (ShippedScenario& scenario : AllShipped()) {
    if (scenario.name == name) return std::move(scenario);
    names.push_back(scenario.name);
  }
  return NotFound(
      "there is no file '{}', and no scenario of that name that comes with the program ('rivulet scenarios').{}", name,
      DidYouMean(name, names));
}

bool IsScenario(std::string_view what) {
  return what.ends_with(".toml") || (IsScenarioName(what) && FindShippedScenario(what).ok());
}

StatusOr<std::vector<std::pair<std::string, std::string>>> OverridesOf(const std::vector<std::string>& sets) {
  std::vector<std::pair<std::string, std::string>> overrides;
  for (const std::string& set : sets) {
    const size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0)
      return UsageError("--set takes KEY=VALUE, not '{}'", Shortened(set));
    overrides.emplace_back(set.substr(0, equals), set.substr(equals + 1));
  }
  return overrides;
}

StatusOr<Scenario> LoadByFileOrName(const std::string& scenario,
                                    const std::vector<std::pair<std::string, std::string>>& overrides,
                                    ScenarioPart part) {
  FileSystem& files = FileSystem::Default();
  // A folder of that name is no scenario, and often the data of one.
  std::error_code none;
  const bool is_file = files.Exists(scenario) && !std::filesystem::is_directory(scenario, none);
  if (!IsScenarioName(scenario) || is_file) return Scenario::Load(scenario, overrides, part);
  RIVULET_ASSIGN_OR_RETURN(const ShippedScenario shipped, FindShippedScenario(scenario));
  RIVULET_ASSIGN_OR_RETURN(const std::string text, files.ReadAll(shipped.path));
  return Scenario::Parse(text, shipped.path, ShippedDataFolder(), overrides, part);
}

std::string DataCommandOf(const std::string& path) {
  constexpr std::string_view kData = "\nData: ";
  for (const ShippedScenario& scenario : AllShipped()) {
    const size_t line = scenario.about.find(kData);
    if (scenario.path != path || line == std::string::npos) continue;
    const size_t begin = line + kData.size();
    return scenario.about.substr(begin, scenario.about.find('\n', begin) - begin);
  }
  return "";
}

std::string ShippedDataFolder() {
  const char* const folder = std::getenv("RIVULET_DATA");
  return folder == nullptr || *folder == '\0' ? "." : folder;
}

}  // namespace rivulet
