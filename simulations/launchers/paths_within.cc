#include "simulations/launchers/paths_within.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "engine/data/record_files.h"
#include "federated/scenario/paths.h"

namespace rivulet {
namespace {

namespace fs = std::filesystem;

// Compares whole names: "/data" does not contain "/database".
bool Holds(const fs::path& folder, const fs::path& path) {
  const auto [end, rest] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end() && rest != path.end();
}

// The file system's resolution, with links. A link to a missing target may lead anywhere.
bool StaysWithin(const fs::path& folder, const fs::path& file) {
  std::error_code error;
  if (fs::is_symlink(fs::symlink_status(file, error)) && !fs::exists(file, error)) return false;
  const fs::path real = fs::weakly_canonical(file, error);
  return !error && Holds(folder, real);
}

}  // namespace

Status PutPathsWithin(const std::string& folder, Scenario& scenario) {
  std::error_code error;
  // Without the empty name after a final "/".
  fs::path named = fs::absolute(folder, error).lexically_normal();
  if (!named.has_filename()) named = named.parent_path();
  const fs::path real = error ? fs::path() : fs::weakly_canonical(named, error);
  if (error) return FailedPrecondition("{}: {}", folder, error.message());
  Status status;
  ForEachPath(scenario, [&](std::string_view key, std::string& path) {
    if (!status.ok()) return;
    const fs::path given = fs::path(path).lexically_normal();
    const fs::path name = given.filename();
    if (name.empty() || name == "." || name == ".." || path.find('\0') != std::string::npos) {
      status = InvalidArgument("{} of the simulation's scenario is '{}', which names no file", key, path);
      return;
    }
    path = Holds(named, given) ? given.string() : (named / name).string();
    std::vector<std::string> files = {path};
    if (const auto matching = RecordFilesMatching(path); matching.ok()) files = *matching;
    const auto out = std::ranges::find_if_not(files, [&](const std::string& file) { return StaysWithin(real, file); });
    if (out == files.end()) return;
    status = FailedPrecondition(
        "{} of the simulation's scenario: '{}' is a link that leads out of '{}'; put the file there, or name the "
        "folder that the link leads to",
        key, *out, folder);
  });
  return status;
}

}  // namespace rivulet
