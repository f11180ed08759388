// Rounds and tasks over time.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/history/history.h"
#include "inspect/picture/picture.h"

namespace rivulet {

// Where the seconds of each attempt went, a bar each that leads to its round; of many, neighbours are one bar. "":
// nothing was measured. `place`: the run's id with its history's prefix (pages.h).
std::string RoundsTimeline(const std::vector<RoundRow>& attempts, const std::string& place);

// Who waited, trained, uploaded or came to nothing when, in the newest rounds, and a table of what was lost and why.
// Of many clients some are shown: those that came to nothing first, then who took longest. "": no tasks are known.
StatusOr<std::string> TasksTimeline(History& history, const std::string& run_id, const std::string& place);

// What a task's time consists of: how long it waited, trained and uploaded, in seconds.
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
