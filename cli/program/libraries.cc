#include "cli/program/libraries.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "cli/program/root.h"
#include "engine/base/join.h"
#include "engine/program/op_library.h"
#include "federated/algorithms/algorithm_library.h"

namespace rivulet {
namespace {

// Paths separated by ':'.
constexpr char kOpLibrariesVariable[] = "RIVULET_OP_LIBRARIES";
constexpr char kAlgorithmLibrariesVariable[] = "RIVULET_ALGORITHM_LIBRARIES";

// Loads those of `variable`, then `paths`, and sets the variable to all of them for child processes.
template <typename Load>
Status LoadAll(const char* variable, const CommonOption& option, std::vector<std::string> paths, const Load& load) {
  std::vector<std::string> inherited;
  if (const char* value = std::getenv(variable)) {
    for (std::string_view rest = value; !rest.empty();) {
      const size_t end = std::min(rest.find(':'), rest.size());
      if (end > 0) inherited.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  for (std::string& path : paths) {
    if (path[0] == '/') continue;
    std::error_code error;
    const std::filesystem::path there = std::filesystem::absolute(path, error);  // for children that change folder
    if (error)
      return FailedPrecondition("{}: '{}' is in a folder that was removed: {}", option.name, path, error.message());
    path = there.string();
  }
  inherited.insert(inherited.end(), paths.begin(), paths.end());
  for (const std::string& path : inherited) {
    const Status loaded = load(path).status();
    if (!loaded.ok()) return AsUsageError(Annotate(loaded, option.name));
  }
  if (!paths.empty()) setenv(variable, Join(inherited, ":").c_str(), 1);
  return absl::OkStatus();
}

}  // namespace

Status LoadLibraries(const LibraryPaths& paths) {
  RIVULET_RETURN_IF_ERROR(LoadAll(kOpLibrariesVariable, kOpLibraryOption, paths.ops, LoadOpLibrary));
  return LoadAll(kAlgorithmLibrariesVariable, kAlgorithmLibraryOption, paths.algorithms, LoadAlgorithmLibrary);
}

}  // namespace rivulet
