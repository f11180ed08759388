#include "coordinator/history/config_keys.h"

#include <algorithm>
#include <string>

namespace rivulet {

Status WriteConfigKeys(Database& db, int64_t run, std::string_view config) {
  RIVULET_RETURN_IF_ERROR(db.Run("DELETE FROM run_key WHERE run = ?", {run}));
  RIVULET_ASSIGN_OR_RETURN(Statement * insert,
                           db.Prepare("INSERT OR REPLACE INTO run_key (run, key, value) VALUES (?, ?, ?)"));
  std::string section;
  while (!config.empty()) {
    const size_t end = std::min(config.find('\n'), config.size());
    const std::string_view line = config.substr(0, end);
    config.remove_prefix(std::min(end + 1, config.size()));
    const size_t equals = line.find(" = ");
    if (line.starts_with('[') && line.ends_with(']')) {
      section = fmt::format("{}.", line.substr(1, line.size() - 2));
    } else if (equals != line.npos) {
      const std::string key = section + std::string(line.substr(0, equals));
      RIVULET_RETURN_IF_ERROR(insert->Run({run, key, line.substr(equals + 3)}));
    }
  }
  return absl::OkStatus();
}

}  // namespace rivulet
