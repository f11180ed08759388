// A round's clients, and a client's rounds.
#include <algorithm>

#include "cli/dashboard/page_parts.h"
#include "cli/dashboard/pages.h"
#include "cli/picture/picture.h"
#include "cli/quantities.h"

namespace rivulet {
namespace {

constexpr const char* kTaskParts[] = {"waited", "trained", "uploaded"};
constexpr const char* kTaskColours[] = {kColours[4], kColours[5], kColours[2]};

std::string OptionalSeconds(const std::optional<double>& seconds) { return seconds ? SecondsText(*seconds) : ""; }
std::string OptionalNumber(const std::optional<int64_t>& number) { return number ? fmt::format("{}", *number) : ""; }

double SecondsOfTask(const ClientRoundRow& task) {
  return task.wait_seconds.value_or(0) + task.train_seconds.value_or(0) + task.upload_seconds.value_or(0);
}

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
  for (size_t part = 0; part < 3; ++part) {
    picture.Rectangle(kLeft + 110 * static_cast<double>(part), 6, 12, 12, kTaskColours[part]);
    picture.Text(kLeft + 18 + 110 * static_cast<double>(part), 16, kTaskParts[part]);
  }
  for (size_t i = 0; i < tasks.size(); ++i) {
    const ClientRoundRow& task = tasks[i];
    const double y = kTop + kRow * static_cast<double>(i);
    const bool folded = task.status == "folded";
    picture.Text(kLeft - 8, y + 10, (folded ? "" : "\u2717 ") + task.client_id.substr(0, 20), Anchor::kEnd, 11);
    double x = kLeft;
    const double seconds[] = {task.wait_seconds.value_or(0), task.train_seconds.value_or(0),
                              task.upload_seconds.value_or(0)};
    for (size_t part = 0; part < 3; ++part) {
      const double width = (kRight - kLeft) * seconds[part] / longest;
      if (width > 0.05) {
        Mark& bar = picture.Rectangle(x, y + 2, width, kRow - 4, kTaskColours[part]);
        bar.title = fmt::format("{} {} {}", task.client_id, kTaskParts[part], SecondsText(seconds[part]));
      }
      x += width;
    }
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
  RIVULET_ASSIGN_OR_RETURN(const auto totals,
                           placed.history.Ask("SELECT tasks, folded, refused, dropped, failed, examples, reliability, "
                                              "mean_train_seconds, last_seen_at FROM client_reliability "
                                              "WHERE run_id = ? AND client_id = ?",
                                              {run.run_id, client}));
  if (totals.rows.empty()) return NotFound("run '{}' has no client '{}' with a task", run.run_id, client);
  const auto& row = totals.rows[0];
  const auto whole = [&](size_t column) { return std::get<int64_t>(row[column]); };
  std::vector<std::vector<std::string>> facts = {
      {"<b>tasks</b>", fmt::format("{}: {} folded, {} refused, {} dropped, {} failed", whole(0), whole(1), whole(2),
                                   whole(3), whole(4))},
      {"<b>examples</b>", fmt::format("{}", whole(5))}};
  if (const auto* seconds = std::get_if<double>(&row[7]))
    facts.push_back({"<b>a task takes</b>", SecondsText(*seconds)});
  if (const auto* seen = std::get_if<std::string>(&row[8])) facts.push_back({"<b>last seen (UTC)</b>", XmlText(*seen)});
  const auto total = static_cast<size_t>(whole(0));
  const size_t first = LeafOf(first_task, total);
  RIVULET_ASSIGN_OR_RETURN(
      const auto tasks,
      placed.history.Ask("SELECT round, attempt, kind, status, staleness, examples, train_loss, update_norm, "
                         "wait_seconds, train_seconds, upload_seconds, bytes_up, error FROM client_rounds "
                         "WHERE run_id = ? AND client_id = ? ORDER BY round DESC, attempt DESC LIMIT ? OFFSET ?",
                         {run.run_id, client, static_cast<int64_t>(kRowsOfAPage), static_cast<int64_t>(first)}));
  const auto text = [](const SqlShown& value) {
    const auto* words = std::get_if<std::string>(&value);
    return words == nullptr ? "" : *words;
  };
  const auto real = [](const SqlShown& value) -> std::optional<double> {
    if (const auto* number = std::get_if<double>(&value)) return *number;
    if (const auto* number = std::get_if<int64_t>(&value)) return static_cast<double>(*number);
    return std::nullopt;
  };
  const auto number = [](const SqlShown& value) -> std::optional<int64_t> {
    const auto* found = std::get_if<int64_t>(&value);
    return found == nullptr ? std::nullopt : std::optional(*found);
  };
  std::vector<std::vector<std::string>> rows;
  for (const auto& cells : tasks.rows) {
    ClientRoundRow task;
    task.kind = text(cells[2]);
    task.status = text(cells[3]);
    task.staleness = number(cells[4]);
    task.examples = number(cells[5]);
    task.train_loss = real(cells[6]);
    task.update_norm = real(cells[7]);
    task.wait_seconds = real(cells[8]);
    task.train_seconds = real(cells[9]);
    task.upload_seconds = real(cells[10]);
    task.bytes_up = number(cells[11]).value_or(0);
    task.error = text(cells[12]);
    const int64_t round = number(cells[0]).value_or(0);
    std::vector<std::string> shown = {RoundLink(placed.prefix + run.run_id, round, fmt::format("{}", round)),
                                      fmt::format("{}", number(cells[1]).value_or(1))};
    for (std::string& cell : TaskCells(task)) shown.push_back(std::move(cell));
    rows.push_back(std::move(shown));
  }
  const std::string address =
      fmt::format("/client?run={}&client={}&first=", UrlText(placed.prefix + run.run_id), UrlText(client));
  std::string body =
      fmt::format("<p>{}</p>\n<table class=\"facts\"><tbody>", RunLink(placed.prefix + run.run_id, run.run_id));
  for (const auto& fact : facts)
    body += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", fact[0], fact[1]);
  body += "</tbody></table>\n<h2 id=\"tasks\">Its tasks, newest first</h2>\n" +
          LeafLinks(address, first, total, "tasks") + HtmlTable(WithTitles({"round#", "attempt#"}), rows);
  return PageOf(fmt::format("{} in {}", client, run.run_id), body);
}

}  // namespace rivulet
