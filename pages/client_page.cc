// The page of one client in a run.
#include <algorithm>

#include "engine/base/quantities.h"
#include "inspect/client_standing.h"
#include "pages/figures.h"
#include "pages/page_parts.h"
#include "pages/pages.h"
#include "pages/task_table.h"

namespace rivulet {

StatusOr<std::string> ClientHistoryPage(const PlacedRun& placed, const std::string& client, int64_t first_task) {
  History& history = placed.history;
  RIVULET_ASSIGN_OR_RETURN(const RunRow run, history.ResolveRun(placed.run));
  RIVULET_ASSIGN_OR_RETURN(const auto totals, history.ReliabilityOf(run.run_id, client));
  if (!totals) return NotFound("run '{}' has no client '{}' with a task", run.run_id, client);
  RIVULET_ASSIGN_OR_RETURN(const ClientStanding standing, StandingOf(history, client));
  RIVULET_ASSIGN_OR_RETURN(const auto newest, history.LastTask(run.run_id, client));
  const auto total = static_cast<size_t>(totals->tasks);
  const size_t first = LeafOf(first_task, total);
  RIVULET_ASSIGN_OR_RETURN(const auto tasks, history.ClientTasks(run.run_id, client, kRowsOfAPage, first));
  const std::string place = placed.prefix + run.run_id;
  const std::string query = fmt::format("run={}&client={}", UrlText(place), UrlText(client)),
                    file = run.run_id + "-" + client;

  const int64_t failed = totals->failed + totals->refused;
  std::string cards = "<div class=\"cards\" id=\"cards\">\n";
  cards += CardHtml("Tasks", fmt::format("{} <small>of {} aggregated</small>", totals->folded, totals->tasks),
                    fmt::format("<ul><li>{} failed, {} refused, {} dropped</li></ul>", totals->failed, totals->refused,
                                totals->dropped),
                    failed > 0 ? "attention" : "healthy");
  // The sum over tasks counts an example once per task; one task's number is the client's.
  const int64_t examples = totals->folded == 0 ? 0 : totals->examples / totals->folded;
  cards += CardHtml("Examples", totals->folded == 0 ? "–" : fmt::format("{} <small>a task</small>", examples),
                    fmt::format("<ul><li class=\"faint\">{} over all its tasks</li></ul>", totals->examples));
  cards += CardHtml(
      "Training time",
      totals->mean_train_seconds ? fmt::format("{} <small>a task</small>", SecondsText(*totals->mean_train_seconds))
                                 : "–",
      newest && newest->bytes_up > 0
          ? fmt::format("<ul><li class=\"faint\">{} sent by its newest task</li></ul>", BytesText(newest->bytes_up))
          : "");
  cards += CardHtml("Last seen",
                    totals->last_seen_at.empty() ? "–" : "<small>" + TimeHtml(totals->last_seen_at) + "</small>",
                    standing.decided() ? fmt::format("<ul><li>{}</li></ul>", XmlText(standing.Text())) : "");
  std::string body = cards + "</div>\n";

  RIVULET_ASSIGN_OR_RETURN(const bool in_clips, NormsAreInClips(history, run.run_id));
  std::vector<std::vector<std::string>> rows;
  for (const ClientRoundRow& task : tasks) {
    std::vector<std::string>& row = rows.emplace_back();
    row = {RoundLink(place, task.round, fmt::format("{}", task.round)), fmt::format("{}", task.attempt)};
    AddTaskCells(row, task);
  }
  const Curve loss = LossCurve(tasks);
  if (loss.points.size() > 1)
    body += HeadingHtml("curves", "Training loss of the tasks below", {}, ChartKnobs()) + "<div class=\"curves\">\n" +
            ChartFigure(ChartOf(loss, client), "",
                        PictureDownloads(fmt::format("of=client&{}&first={}", query, first), file)) +
            "</div>\n";
  body += HeadingHtml("tasks", "Tasks, newest first", {TableDownload("of=tasks&" + query, file)}) +
          LeafLinks(fmt::format("/client?{}&first=", query), first, total, "tasks") +
          HtmlTable(TaskTitles({"round#", "attempt#"}, in_clips), rows);
  return PageOf({.title = fmt::format("{} in {}", client, run.run_id),
                 .path = RunPath(place, run.run_id),
                 .heading = fmt::format("<div class=\"title\"><h1>{}</h1>{}</div>\n", XmlText(client),
                                        StatusHtml(standing.status))},
                body);
}

}  // namespace rivulet
