#include "inspect/pauses.h"

#include <fmt/format.h>

namespace rivulet {

std::string Pause::Text() const {
  return fmt::format("paused by {}{}", by.empty() ? "an operator" : by, reason.empty() ? "" : ": " + reason);
}

StatusOr<std::map<std::string, Pause>> PausedRuns(History& history) {
  std::map<std::string, Pause> paused;
  RIVULET_ASSIGN_OR_RETURN(const std::vector<AuditRow> audit, history.Audit());
  for (const AuditRow& row : audit) {
    if (row.run_id.empty()) continue;
    if (row.action == "pause") {
      paused[row.run_id] = {row.operator_id, row.at, row.detail};
    } else {
      paused.erase(row.run_id);
    }
  }
  for (auto run = paused.begin(); run != paused.end();) {
    RIVULET_ASSIGN_OR_RETURN(
        const SqlAnswer since,
        history.Ask("SELECT count(*) FROM events WHERE run_id = ? AND at > ? AND message LIKE ? || '%'",
                    {run->first, run->second.at, kResumedEvent}));
    const auto* resumed = std::get_if<int64_t>(&since.rows.at(0).at(0));
    run = resumed != nullptr && *resumed > 0 ? paused.erase(run) : std::next(run);
  }
  return paused;
}

}  // namespace rivulet
