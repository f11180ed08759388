// The page of a round's clients.
#include <algorithm>

#include "engine/base/quantities.h"
#include "pages/figures.h"
#include "pages/page_parts.h"
#include "pages/pages.h"
#include "pages/round_pictures.h"
#include "pages/task_table.h"

namespace rivulet {
namespace {

double SecondsOfTask(const ClientRoundRow& task) {
  return SecondsOf(TaskPartsOf(task.wait_seconds, task.train_seconds, task.upload_seconds));
}

}  // namespace

StatusOr<std::vector<ClientRoundRow>> TasksOfRound(History& history, const std::string& run_id, int64_t round) {
  RIVULET_ASSIGN_OR_RETURN(std::vector<ClientRoundRow> tasks, history.ClientRounds(run_id, round));
  if (tasks.empty()) return NotFound("run '{}' has no round {} whose tasks are known", run_id, round);
  std::ranges::stable_sort(tasks, [](const ClientRoundRow& a, const ClientRoundRow& b) {
    const bool a_folded = a.status == "folded", b_folded = b.status == "folded";
    return a_folded != b_folded ? b_folded : SecondsOfTask(a) > SecondsOfTask(b);
  });
  return tasks;
}

StatusOr<std::string> RoundPage(const PlacedRun& placed, int64_t round, int64_t first_task) {
  RIVULET_ASSIGN_OR_RETURN(const RunRow run, placed.history.ResolveRun(placed.run));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<ClientRoundRow> tasks, TasksOfRound(placed.history, run.run_id, round));
  const std::string place = placed.prefix + run.run_id;
  const size_t first = LeafOf(first_task, tasks.size());
  const std::span shown = std::span(tasks).subspan(first, std::min(kRowsOfAPage, tasks.size() - first));
  std::vector<std::vector<std::string>> rows;
  for (const ClientRoundRow& task : shown) {
    std::vector<std::string>& row = rows.emplace_back();
    row = {ClientLink(place, task.client_id), fmt::format("{}", task.attempt)};
    AddTaskCells(row, task);
  }
  std::map<std::string, int64_t> ends;
  for (const ClientRoundRow& task : tasks) ++ends[task.status];
  std::string heading = fmt::format("<div class=\"title\"><h1>Round {}</h1>", round);
  for (const auto& [status, count] : ends)
    heading += fmt::format("<span class=\"status {0}\">{1} {0}</span>", XmlText(status), count);
  heading += "<span class=\"actions\">";
  if (round > 1) heading += RoundLink(place, round - 1, "← round before") + " · ";
  heading += RoundLink(place, round + 1, "next round →") + "</span></div>\n";
  const std::string query = fmt::format("run={}&round={}", UrlText(place), round),
                    file = fmt::format("{}-round-{}", run.run_id, round);
  std::string body =
      HeadingHtml("tasks", "Tasks: failed ones first, then the slowest", {TableDownload("of=tasks&" + query, file)}) +
      LeafLinks(fmt::format("/round?{}&first=", query), first, tasks.size(), "tasks");
  if (const std::optional<Picture> picture = TaskLines(shown); picture)
    body += FigureHtml("waited, trained, uploaded", "", *picture,
                       PictureDownloads(fmt::format("of=round&{}&first={}", query, first), file), true) +
            "<p></p>\n";
  RIVULET_ASSIGN_OR_RETURN(const bool in_clips, NormsAreInClips(placed.history, run.run_id));
  body += HtmlTable(TaskTitles({"client", "attempt#"}, in_clips), rows);
  return PageOf({.title = fmt::format("Round {} of {}", round, run.run_id),
                 .path = RunPath(place, run.run_id),
                 .heading = heading},
                body);
}

}  // namespace rivulet
