#include "cli/run/client_options.h"

#include <filesystem>
#include <map>

#include "engine/base/file_system.h"
#include "engine/base/join.h"
#include "engine/data/dataset.h"
#include "engine/data/record_files.h"

namespace rivulet {

StatusOr<std::map<std::string, std::vector<std::string>>> BoundFilesOf(const std::vector<std::string>& bindings) {
  std::map<std::string, std::vector<std::string>> files;
  for (const std::string& binding : bindings) {
    const size_t equals = binding.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == binding.size()) {
      return UsageError("--data takes NAME=GLOB, such as train=data/*.tfrecord, not '{}'", binding);
    }
    RIVULET_ASSIGN_OR_RETURN(const auto matched, RecordFilesMatching(binding.substr(equals + 1)));
    std::vector<std::string>& of_name = files[binding.substr(0, equals)];
    of_name.insert(of_name.end(), matched.begin(), matched.end());
  }
  return files;
}

StatusOr<std::vector<BoundData>> BindData(const std::vector<std::string>& bindings,
                                          const std::vector<std::string>& tags) {
  for (const std::string& tag : tags) {
    if (tag.empty()) return UsageError("--tag takes a word, such as icu");
  }
  RIVULET_ASSIGN_OR_RETURN(const auto files, BoundFilesOf(bindings));
  std::vector<BoundData> bound;
  for (const auto& [name, of_name] : files) {
    BoundData& data = bound.emplace_back(BoundData{.name = name, .tags = tags});
    RIVULET_ASSIGN_OR_RETURN(data.dataset, Dataset::Open(of_name));
    if (data.dataset->size() == 0) {
      return FailedPrecondition("{} has no examples; a client needs at least one", Join(of_name, ", "));
    }
  }
  return bound;
}

StatusOr<SitePolicy> PolicyOf(const ClientOptions& options) {
  if (options.policy.empty()) return SitePolicy{};
  RIVULET_ASSIGN_OR_RETURN(const std::string toml, FileSystem::Default().ReadAll(options.policy));
  StatusOr<SitePolicy> policy = ParseSitePolicy(toml, options.policy);
  if (!policy.ok()) return AsUsageError(policy.status());
  return policy;
}

Status CheckStateFolder(const std::string& folder) {
  std::error_code ignored;
  const auto found = std::filesystem::symlink_status(folder, ignored).type();
  if (found == std::filesystem::file_type::not_found || std::filesystem::is_directory(folder, ignored))
    return absl::OkStatus();
  return InvalidArgument("--state: '{}' is no folder; give one, or a name that nothing has", folder);
}

}  // namespace rivulet
