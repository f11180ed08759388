#include "engine/data/record_files.h"

#include <glob.h>

#include <algorithm>

#include "engine/base/file_system.h"

namespace rivulet {

bool IsFilePattern(const std::string& path) { return path.find_first_of("*?[") != std::string::npos; }

StatusOr<std::vector<std::string>> RecordFilesMatching(const std::string& pattern) {
  if (FileSystem::Default().Exists(pattern)) return std::vector<std::string>{pattern};
  if (!IsFilePattern(pattern)) return NotFound("{}: no such file", pattern);
  glob_t found = {};
  const int code = glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  std::vector<std::string> files(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  if (code != 0) files.clear();
  std::sort(files.begin(), files.end());
  const std::vector<std::string> all = files;
  std::erase_if(files, [&](const std::string& file) {
    constexpr std::string_view kIndex = ".index";
    return file.ends_with(kIndex) && std::ranges::binary_search(all, file.substr(0, file.size() - kIndex.size()));
  });
  if (files.empty()) return NotFound("no file matches '{}'", pattern);
  return files;
}

StatusOr<std::shared_ptr<const Dataset>> OpenRecordsMatching(const std::string& pattern) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<std::string> files, RecordFilesMatching(pattern));
  return Dataset::Open(files);
}

}  // namespace rivulet
