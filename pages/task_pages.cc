// A round's clients, and a client's rounds.
#include <algorithm>

#include "engine/base/quantities.h"
#include "inspect/picture/picture.h"
#include "pages/page_parts.h"
#include "pages/pages.h"
#include "pages/round_pictures.h"

namespace rivulet {
namespace {

std::string OptionalSeconds(const std::optional<double>& seconds) { return seconds ? SecondsText(*seconds) : ""; }
std::string OptionalNumber(const std::optional<int64_t>& number) { return number ? fmt::format("{}", *number) : ""; }

TaskParts PartsOf(const ClientRoundRow& task) {
  return TaskPartsOf(task.wait_seconds, task.train_seconds, task.upload_seconds);
}
double SecondsOfTask(const ClientRoundRow& task) { return SecondsOf(PartsOf(task)); }

// A line a task, of what it did when, from the moment it was drawn.
std::string TaskLines(std::span<const ClientRoundRow> tasks) {
  double longest = 0;
  for (const ClientRoundRow& task : tasks) longest = std::max(longest, SecondsOfTask(task));
  if (longest <= 0) return "";
  constexpr double kRow = 14, kLeft = 150, kRight = 700, kTop = 30;
  Picture picture{.width = 720,
                  .height = kTop + kRow * static_cast<double>(tasks.size()) + 40,
                  .label = "what each client did when",
                  .marks = {}};
  AddPartsLegend(picture, kLeft);
  for (size_t i = 0; i < tasks.size(); ++i) {
    const ClientRoundRow& task = tasks[i];
    const double y = kTop + kRow * static_cast<double>(i);
    const bool folded = task.status == "folded";
    picture.Text(kLeft - 8, y + 10, (folded ? "" : "\u2717 ") + task.client_id.substr(0, 20), Anchor::kEnd, 11);
    const double x = AddPartsBar(picture, kLeft, y + 2, kRow - 4, (kRight - kLeft) / longest, PartsOf(task),
                                 PartsText(task.client_id, PartsOf(task)), "");
    if (!folded) picture.Text(std::min(x + 6, kRight - 60), y + 10, task.status, Anchor::kStart, 11);
  }
  const double bottom = kTop + kRow * static_cast<double>(tasks.size()) + 4;
  picture.Line({{kLeft, bottom}, {kRight, bottom}}).opacity = 0.6;
  picture.Text(kLeft, bottom + 16, "0 s");
  picture.Text(kRight, bottom + 16, SecondsText(longest), Anchor::kEnd);
  return PictureSvg(picture, false);
}

std::vector<std::string> TaskCells(const ClientRoundRow& task) {
  return {XmlText(task.kind),
          XmlText(task.status),
          OptionalNumber(task.staleness),
          OptionalNumber(task.examples),
          Share(task.train_loss),
          Share(task.update_norm),
          OptionalSeconds(task.wait_seconds),
          OptionalSeconds(task.train_seconds),
          OptionalSeconds(task.upload_seconds),
          BytesText(task.bytes_up),
          XmlText(task.error)};
}
const std::vector<std::string> kTaskTitles = {"kind",        "status",       "staleness#", "examples#",
                                              "train loss#", "update norm#", "waited#",    "trained#",
                                              "uploaded#",   "sent#",        "why"};

std::vector<std::string> WithTitles(std::vector<std::string> before) {
  before.insert(before.end(), kTaskTitles.begin(), kTaskTitles.end());
  return before;
}

}  // namespace

StatusOr<std::string> RoundPage(const PlacedRun& placed, int64_t round, int64_t first_task) {
  RIVULET_ASSIGN_OR_RETURN(const RunRow run, placed.history.ResolveRun(placed.run));
  RIVULET_ASSIGN_OR_RETURN(std::vector<ClientRoundRow> tasks, placed.history.ClientRounds(run.run_id, round));
  if (tasks.empty()) return NotFound("run '{}' has no round {} whose tasks are known", run.run_id, round);
  // Those that came to nothing first, then who took longest: by whom the round was held up.
  std::ranges::stable_sort(tasks, [](const ClientRoundRow& a, const ClientRoundRow& b) {
    const bool a_folded = a.status == "folded", b_folded = b.status == "folded";
    return a_folded != b_folded ? b_folded : SecondsOfTask(a) > SecondsOfTask(b);
  });
  const size_t first = LeafOf(first_task, tasks.size());
  const std::span shown = std::span(tasks).subspan(first, std::min(kRowsOfAPage, tasks.size() - first));
  std::vector<std::vector<std::string>> rows;
  for (const ClientRoundRow& task : shown) {
    std::vector<std::string> row = {ClientLink(placed.prefix + run.run_id, task.client_id),
                                    fmt::format("{}", task.attempt)};
    for (std::string& cell : TaskCells(task)) row.push_back(std::move(cell));
    rows.push_back(std::move(row));
  }
  std::string body = fmt::format("<p>{}", RunLink(placed.prefix + run.run_id, run.run_id));
  if (round > 1) body += fmt::format(" · {}", RoundLink(placed.prefix + run.run_id, round - 1, "the round before"));
  body += fmt::format(" · {}</p>\n", RoundLink(placed.prefix + run.run_id, round + 1, "the next"));
  const std::string address = fmt::format("/round?run={}&round={}&first=", UrlText(placed.prefix + run.run_id), round);
  body += "<h2 id=\"tasks\">Who waited, trained, uploaded, and came to nothing</h2>\n" +
          LeafLinks(address, first, tasks.size(), "tasks") + TaskLines(shown) +
          HtmlTable(WithTitles({"client", "attempt#"}), rows);
  return PageOf(fmt::format("Round {} of {}", round, run.run_id), body);
}

StatusOr<std::string> ClientHistoryPage(const PlacedRun& placed, const std::string& client, int64_t first_task) {
  RIVULET_ASSIGN_OR_RETURN(const RunRow run, placed.history.ResolveRun(placed.run));
  RIVULET_ASSIGN_OR_RETURN(const auto totals, placed.history.ReliabilityOf(run.run_id, client));
  if (!totals) return NotFound("run '{}' has no client '{}' with a task", run.run_id, client);
  std::vector<std::pair<std::string, std::string>> facts = {
      {"tasks", fmt::format("{}: {} folded, {} refused, {} dropped, {} failed", totals->tasks, totals->folded,
                            totals->refused, totals->dropped, totals->failed)},
      {"examples", fmt::format("{}", totals->examples)}};
  if (totals->mean_train_seconds) facts.emplace_back("a task takes", SecondsText(*totals->mean_train_seconds));
  if (!totals->last_seen_at.empty()) facts.emplace_back("last seen (UTC)", XmlText(totals->last_seen_at));
  const auto total = static_cast<size_t>(totals->tasks);
  const size_t first = LeafOf(first_task, total);
  RIVULET_ASSIGN_OR_RETURN(const auto tasks, placed.history.ClientTasks(run.run_id, client, kRowsOfAPage, first));
  const std::string place = placed.prefix + run.run_id;
  std::vector<std::vector<std::string>> rows;
  for (const ClientRoundRow& task : tasks) {
    std::vector<std::string> shown = {RoundLink(place, task.round, fmt::format("{}", task.round)),
                                      fmt::format("{}", task.attempt)};
    for (std::string& cell : TaskCells(task)) shown.push_back(std::move(cell));
    rows.push_back(std::move(shown));
  }
  const std::string address = fmt::format("/client?run={}&client={}&first=", UrlText(place), UrlText(client));
  const std::string body = fmt::format("<p>{}</p>\n", RunLink(place, run.run_id)) + FactsTable(facts) +
                           "<h2 id=\"tasks\">Its tasks, newest first</h2>\n" +
                           LeafLinks(address, first, total, "tasks") +
                           HtmlTable(WithTitles({"round#", "attempt#"}), rows);
  return PageOf(fmt::format("{} in {}", client, run.run_id), body);
}

}  // namespace rivulet
