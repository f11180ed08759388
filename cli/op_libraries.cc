#include "cli/op_libraries.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "cli/root.h"
#include "engine/program/op_library.h"

namespace rivulet {
namespace {

constexpr char kOpLibrariesVariable[] = "RIVULET_OP_LIBRARIES";  // paths with ':' between

}  // namespace

Status LoadOpLibraries(std::vector<std::string> paths) {
  std::vector<std::string> inherited;
  if (const char* variable = std::getenv(kOpLibrariesVariable)) {
    for (std::string_view rest = variable; !rest.empty();) {
      const size_t end = std::min(rest.find(':'), rest.size());
      if (end > 0) inherited.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  for (std::string& path : paths)
    if (path[0] != '/') path = std::filesystem::absolute(path).string();  // for children that change folder
  inherited.insert(inherited.end(), paths.begin(), paths.end());
  for (const std::string& path : inherited) {
    const StatusOr<OpLibrary> library = LoadOpLibrary(path);
    if (!library.ok()) return AsUsageError(Annotate(library.status(), kOpLibraryOption.name));
  }
  if (!paths.empty()) setenv(kOpLibrariesVariable, fmt::format("{}", fmt::join(inherited, ":")).c_str(), 1);
  return absl::OkStatus();
}

}  // namespace rivulet
