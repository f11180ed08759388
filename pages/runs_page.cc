// The list of runs, and what differs between some of them.
#include <algorithm>
#include <map>

#include "engine/base/join.h"
#include "engine/base/quantities.h"
#include "inspect/listed_runs.h"
#include "inspect/picture/chart.h"
#include "pages/live_run.h"
#include "pages/page_parts.h"
#include "pages/pages.h"

namespace rivulet {

namespace {

// The runs of one history; `running` becomes true where one of those shown goes on.
StatusOr<std::string> RunsOf(const PlacedHistory& placed, int64_t first_run, bool& running) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<ListedRun> runs, LoadListedRuns(*placed.history));
  const size_t first = LeafOf(first_run, runs.size()), end = std::min(first + kRowsOfAPage, runs.size());
  std::vector<std::map<std::string, std::string>> keys;
  for (size_t i = first; i < end; ++i) keys.push_back(runs[i].keys);
  std::set<std::string> differing = DifferingKeys(keys);
  differing.erase("run.name");
  differing.erase("run.rounds");
  std::vector<std::string> titles = {"", "run", "status", "rounds#", "best#", "last#", "took#"};
  for (const std::string& key : differing) titles.push_back(ShortKey(key, differing));
  titles.push_back("tags");
  std::vector<std::vector<std::string>> rows;
  for (size_t i = first; i < end; ++i) {
    const ListedRun& run = runs[i];
    running = running || run.row.status == "running";
    const Cell wanted = ValueUnder(run, "run.rounds");
    std::vector<std::string> row = {
        fmt::format("<input type=\"checkbox\" name=\"run\" value=\"{}\" aria-label=\"compare {}\">",
                    XmlText(placed.prefix + run.row.run_id), XmlText(run.row.run_id)),
        RunLink(placed.prefix + run.row.run_id, run.row.run_id),
        StatusHtml(run.row.status),
        wanted == Cell() ? fmt::format("{}", run.row.rounds)
                         : fmt::format("{} of {}", run.row.rounds, TextOfCell(wanted)),
        Share(run.row.best_accuracy),
        Share(run.row.last_accuracy),
        SecondsText(run.row.seconds)};
    for (const std::string& key : differing) {
      const auto value = run.keys.find(key);
      row.push_back(value == run.keys.end() ? "" : XmlText(value->second));
    }
    row.push_back(XmlText(Join(run.tags, ", ")));
    rows.push_back(std::move(row));
  }
  if (runs.empty()) return std::string("<p>No runs yet.</p>\n");
  return LeafLinks("/?runs=", first, runs.size(), "") + HtmlTable(titles, rows);
}

}  // namespace

StatusOr<std::string> RunsPage(std::span<const PlacedHistory> histories, int64_t first, const LiveRun* live) {
  std::string body;
  bool running = false;
  if (live != nullptr)
    body += fmt::format("<p>{} goes on in this process: its page moves as it does.</p>\n",
                        RunLink(live->run_id(), live->run_id()));
  body += "<form action=\"/compare\" method=\"get\">\n";
  for (const PlacedHistory& placed : histories) {
    if (histories.size() > 1) body += fmt::format("<h2>{}</h2>\n", XmlText(placed.history->path()));
    RIVULET_ASSIGN_OR_RETURN(const std::string runs, RunsOf(placed, first, running));
    body += runs;
  }
  body += "<p><button type=\"submit\">Compare those that are ticked</button></p></form>\n";
  if (live == nullptr) body += fmt::format("<p class=\"faint\">{}</p>\n", kRowsAppear);
  return PageOf("Runs", body, running ? Renewal::kEveryFiveSeconds : Renewal::kNone);
}

StatusOr<std::string> ComparePage(std::span<const PlacedRun> names) {
  if (names.size() < 2) return InvalidArgument("there is nothing to compare; tick at least two runs");
  struct Compared {
    std::string place;
    ListedRun run;
    std::vector<Curve> curves;
  };
  std::vector<Compared> runs;
  for (const PlacedRun& name : names) {
    RIVULET_ASSIGN_OR_RETURN(const RunRow row, name.history.ResolveRun(name.run));
    RIVULET_ASSIGN_OR_RETURN(std::vector<ListedRun> listed, LoadListedRuns(name.history));
    RIVULET_ASSIGN_OR_RETURN(std::vector<Curve> curves, LoadCurves(name.history, row.run_id));
    for (ListedRun& run : listed)
      if (run.row.run_id == row.run_id) runs.push_back({name.prefix + row.run_id, std::move(run), std::move(curves)});
  }
  std::vector<std::map<std::string, std::string>> keys;
  std::vector<std::string> titles = {"key"}, metrics;
  for (const Compared& run : runs) {
    keys.push_back(run.run.keys);
    titles.push_back(run.run.row.run_id);
    for (const Curve& curve : run.curves)
      if (std::ranges::find(metrics, curve.name) == metrics.end()) metrics.push_back(curve.name);
  }
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> status = {"status"}, best = {"best accuracy"};
  for (const Compared& run : runs) {
    status.push_back(StatusHtml(run.run.row.status));
    best.push_back(Share(run.run.row.best_accuracy));
  }
  rows.push_back(std::move(status));
  rows.push_back(std::move(best));
  for (const std::string& key : DifferingKeys(keys)) {
    std::vector<std::string> row = {fmt::format("<code>{}</code>", XmlText(key))};
    for (const Compared& run : runs) {
      const auto value = run.run.keys.find(key);
      row.push_back(value == run.run.keys.end() ? "" : fmt::format("<code>{}</code>", XmlText(value->second)));
    }
    rows.push_back(std::move(row));
  }
  std::string body = "<p>";
  for (const Compared& run : runs) body += RunLink(run.place, run.run.row.run_id) + " ";
  body +=
      "</p>\n<h2>What differed</h2>\n" + HtmlTable(titles, rows) + "<h2>How they went</h2>\n<div class=\"curves\">\n";
  for (const std::string& metric : metrics) {
    std::vector<std::pair<std::string, const Curve*>> curves;
    for (const Compared& run : runs) {
      const auto curve = std::ranges::find(run.curves, metric, &Curve::name);
      curves.emplace_back(run.run.row.run_id, curve == run.curves.end() ? nullptr : &*curve);
    }
    body += CurveSvg(metric, curves);
  }
  return PageOf("Runs compared", body + "</div>\n");
}

std::string ErrorPage(std::string_view title, std::string_view sentence) {
  return PageOf(title, fmt::format("<p>{}</p>\n<p><a href=\"/\">All runs</a></p>\n", XmlText(sentence)));
}

}  // namespace rivulet
