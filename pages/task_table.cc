#include "pages/task_table.h"

#include <algorithm>

#include "engine/base/quantities.h"
#include "inspect/picture/picture.h"
#include "pages/page_parts.h"

namespace rivulet {
namespace {

std::string OptionalSeconds(const std::optional<double>& seconds) { return seconds ? SecondsText(*seconds) : ""; }
std::string OptionalNumber(const std::optional<int64_t>& number) { return number ? fmt::format("{}", *number) : ""; }

}  // namespace

StatusOr<bool> NormsAreInClips(History& history, const std::string& run_id) {
  RIVULET_ASSIGN_OR_RETURN(
      const SqlAnswer answer,
      history.Ask("SELECT 1 FROM metrics WHERE run_id = ? AND name = 'privacy/clip' LIMIT 1", {run_id}));
  return !answer.rows.empty();
}

std::vector<std::string> TaskTitles(std::vector<std::string> titles, bool norms_in_clips) {
  const char* const norm = norms_in_clips ? "?update norm, in clips#" : "?update norm#";
  for (const char* title : {"kind", "status", "?staleness#", "?examples#", "?train loss#", norm, "?waited#",
                            "?trained#", "?uploaded#", "sent#"})
    titles.emplace_back(title);
  return titles;
}

void AddTaskCells(std::vector<std::string>& row, const ClientRoundRow& task) {
  for (std::string cell :
       {XmlText(task.kind), StatusHtml(task.status) + WhyHtml(task.error), OptionalNumber(task.staleness),
        OptionalNumber(task.examples), Share(task.train_loss), Share(task.update_norm),
        OptionalSeconds(task.wait_seconds), OptionalSeconds(task.train_seconds), OptionalSeconds(task.upload_seconds),
        BytesText(task.bytes_up)})
    row.push_back(std::move(cell));
}

Curve LossCurve(const std::vector<ClientRoundRow>& tasks) {
  Curve loss{.name = "train/loss", .points = {}, .lower_is_better = true};
  for (const ClientRoundRow& task : tasks)
    if (task.status == "folded" && task.kind == "train" && task.train_loss)
      loss.points.emplace_back(task.round, *task.train_loss);
  std::ranges::reverse(loss.points);
  return loss;
}

}  // namespace rivulet
