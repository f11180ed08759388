// Rounds and tasks over time.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coordinator/history/history.h"
#include "coordinator/history/questions.h"
#include "inspect/picture/picture.h"

namespace rivulet {

// The times of each attempt, as a bar that links to its round; with many attempts, neighbours share a bar. nullopt:
// there are no times. `place`: the run's id with its history's prefix (pages.h).
std::optional<Picture> RoundsPicture(const std::vector<RoundRow>& attempts, const std::string& place);

// The number of attempts with drawn tasks.
inline constexpr int64_t kAttemptsDrawn = 6;
// The phases of clients in the newest rounds, a line per client: waiting, training, upload, failure. Of many clients
// some are drawn: those with failed tasks first, then the slowest. `tasks`: of NewestTasks, at least one.
Picture TasksPicture(const std::vector<TaskInTime>& tasks, const std::string& place);
// The same as a section of a page, with a table of failed tasks and their reasons. "": no tasks are known.
std::string TasksTimeline(const std::vector<TaskInTime>& tasks, const std::string& run_id, const std::string& place);

// A line per task, with its phases since it was drawn; nullopt: there are no times.
std::optional<Picture> TaskLines(std::span<const ClientRoundRow> tasks);

// Parts of a task's time: waiting, training and upload, in seconds.
using TaskParts = std::array<double, 3>;
inline TaskParts TaskPartsOf(const std::optional<double>& waited, const std::optional<double>& trained,
                             const std::optional<double>& uploaded) {
  return {waited.value_or(0), trained.value_or(0), uploaded.value_or(0)};
}
inline double SecondsOf(const TaskParts& parts) { return parts[0] + parts[1] + parts[2]; }
// "site-3: waited 0.2 s, trained 3 s, uploaded 12 ms"
std::string PartsText(const std::string& client, const TaskParts& parts);
// A legend of their colours, from `x` on.
void AddPartsLegend(Picture& picture, double x);
// A bar of the parts, `height` high, with `scale` points per second; links to `link` unless that is empty. Returns the
// x of its end.
double AddPartsBar(Picture& picture, double x, double y, double height, double scale, const TaskParts& parts,
                   const std::string& title, const std::string& link);

}  // namespace rivulet
