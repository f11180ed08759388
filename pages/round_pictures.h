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

// Where the seconds of each attempt went, a bar each that leads to its round; of many, neighbours are one bar. nullopt:
// nothing was measured. `place`: the run's id with its history's prefix (pages.h).
std::optional<Picture> RoundsPicture(const std::vector<RoundRow>& attempts, const std::string& place);

// The attempts of which tasks are drawn.
inline constexpr int64_t kAttemptsDrawn = 6;
// When clients waited, trained, uploaded or failed in the newest rounds: a line a client. Of many clients some are
// drawn: those whose tasks failed first, then the slowest. `tasks`: of NewestTasks, at least one.
Picture TasksPicture(const std::vector<TaskInTime>& tasks, const std::string& place);
// The same as a section of a page, with a table of tasks that failed and why. "": no tasks are known.
std::string TasksTimeline(const std::vector<TaskInTime>& tasks, const std::string& run_id, const std::string& place);

// A line a task, of its phases since it was drawn; nullopt: nothing was measured.
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
// Their colours, from `x` on.
void AddPartsLegend(Picture& picture, double x);
// A bar of them, `height` high, with `scale` points a second; leads to `link` where that is not empty. Returns where
// it ends.
double AddPartsBar(Picture& picture, double x, double y, double height, double scale, const TaskParts& parts,
                   const std::string& title, const std::string& link);

}  // namespace rivulet
