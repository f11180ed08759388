#include "engine/datasets/class_names.h"

#include <algorithm>

#include "engine/datasets/table.h"

namespace rivulet {

std::vector<std::string> ClassNamesBeside(FileSystem& files, const std::string& records) {
  if (records.empty()) return {};
  const std::string folder = FolderOf(records);
  if (const auto lines = files.ReadAll(JoinPath(folder, "classes.txt")); lines.ok()) {
    std::vector<std::string> names;
    for (size_t at = 0; at < lines->size();) {
      const size_t end = std::min(lines->find('\n', at), lines->size());
      names.push_back(lines->substr(at, end - at));
      at = end + 1;
    }
    return names;
  }
  const auto json = files.ReadAll(JoinPath(folder, "columns.json"));
  if (!json.ok()) return {};
  auto columns = ParseTableColumns(*json);
  return columns.ok() ? std::move(columns->classes) : std::vector<std::string>();
}

}  // namespace rivulet
