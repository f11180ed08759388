#include "cli/dashboard/pages.h"

#include <algorithm>
#include <map>

#include "cli/quantities.h"
#include "cli/runs/chart.h"
#include "cli/runs/listed_runs.h"
#include "cli/runs/overview.h"
#include "cli/runs/sparkline.h"
#include "engine/base/file_system.h"

namespace rivulet {
namespace {

constexpr size_t kRowsOfAPage = 50;
constexpr size_t kEventsOfAPage = 100;  // the newest

std::string UrlText(std::string_view text) {
  std::string url;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-_.~").find(c) != std::string_view::npos;
    url += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return url;
}

std::string RunLink(const std::string& run_id) {
  return fmt::format("<a href=\"/run?id={}\">{}</a>", UrlText(run_id), XmlText(run_id));
}

// `refresh` in seconds; 0: the page stays as it is.
std::string PageOf(std::string_view title, std::string_view body, int refresh = 0) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">{1}\n"
      "<link rel=\"stylesheet\" href=\"{2}\"></head>\n"
      "<body><header><a href=\"/\">Rivulet</a></header><main>\n<h1>{0}</h1>\n{3}</main></body></html>\n",
      XmlText(title), refresh > 0 ? fmt::format("\n<meta http-equiv=\"refresh\" content=\"{}\">", refresh) : "",
      kStylePath, body);
}

std::string TextOfCell(const Cell& cell) {
  struct Writer {
    std::string operator()(std::monostate) const { return ""; }
    std::string operator()(bool v) const { return v ? "yes" : "no"; }
    std::string operator()(int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(double v) const { return fmt::format("{:.4f}", v); }
    std::string operator()(const std::string& v) const { return XmlText(v); }
  };
  return std::visit(Writer{}, cell);
}

// Rows of cells that are HTML already; numbers stand to the right where a title ends with '#', which is not shown.
std::string HtmlTable(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& rows) {
  std::string html = "<div class=\"scroll\"><table><thead><tr>";
  const auto number = [&](size_t column) { return titles[column].ends_with('#'); };
  for (size_t column = 0; column < titles.size(); ++column) {
    const std::string title = titles[column].substr(0, titles[column].size() - (number(column) ? 1 : 0));
    html += fmt::format("<th scope=\"col\"{}>{}</th>", number(column) ? " class=\"n\"" : "", XmlText(title));
  }
  html += "</tr></thead><tbody>\n";
  for (const auto& row : rows) {
    html += "<tr>";
    for (size_t column = 0; column < row.size(); ++column)
      html += fmt::format("<td{}>{}</td>", number(column) ? " class=\"n\"" : "", row[column]);
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

// The place that a page begins with, of `total` rows.
size_t LeafOf(int64_t first, size_t total) {
  if (first <= 0 || total == 0) return 0;
  return std::min(static_cast<size_t>(first), total - 1) / kRowsOfAPage * kRowsOfAPage;
}

// "51–100 of 1000, earlier, later": `address` ends where the number goes.
std::string LeafLinks(std::string_view address, size_t first, size_t total, std::string_view anchor) {
  if (total <= kRowsOfAPage) return "";
  std::string html =
      fmt::format("<p class=\"leaf\">{}–{} of {}", first + 1, std::min(first + kRowsOfAPage, total), total);
  const auto link = [&](size_t to, const char* word) {
    html += fmt::format(" <a href=\"{}{}#{}\">{}</a>", XmlText(address), to, anchor, word);
  };
  if (first > 0) link(first - kRowsOfAPage, "previous");
  if (first + kRowsOfAPage < total) link(first + kRowsOfAPage, "next");
  return html + "</p>\n";
}

std::string StatusHtml(const std::string& status) {
  const char* sign = status == "finished" ? "✓" : status == "running" ? "▶" : status == "failed" ? "✗" : "◼";
  return fmt::format("<span class=\"status {0}\">{1} {0}</span>", XmlText(status), sign);
}

std::string Share(const std::optional<double>& value) { return value ? fmt::format("{:.4f}", *value) : ""; }

// Where the seconds of each round went, a bar each; of many rounds neighbours are one bar.
std::string Timeline(const std::vector<RoundRow>& attempts) {
  if (attempts.empty()) return "";
  constexpr size_t kMostBars = 120;
  const size_t bars = std::min(attempts.size(), kMostBars);
  struct Bar {
    double parts[3] = {};
    size_t first = 0, last = 0;
    bool given_up = false;
  };
  std::vector<Bar> all;
  double longest = 0;
  for (size_t bar = 0; bar < bars; ++bar) {
    Bar& next = all.emplace_back();
    next.first = bar * attempts.size() / bars;
    next.last = (bar + 1) * attempts.size() / bars - 1;
    for (size_t i = next.first; i <= next.last; ++i) {
      next.parts[0] += attempts[i].train_seconds;
      next.parts[1] += attempts[i].aggregate_seconds;
      next.parts[2] += attempts[i].evaluate_seconds;
      next.given_up = next.given_up || attempts[i].status != "committed";
    }
    longest = std::max(longest, next.parts[0] + next.parts[1] + next.parts[2]);
  }
  if (longest <= 0) return "";
  constexpr double kTop = 8, kBottom = 128, kLeft = 62, kRight = 704;
  constexpr const char* kPartColours[] = {"#56B4E9", "#D55E00", "#009E73"};
  constexpr const char* kPartNames[] = {"clients at work", "aggregation", "evaluation"};
  const double step = (kRight - kLeft) / static_cast<double>(bars);
  std::string svg =
      "<svg viewBox=\"0 0 720 180\" role=\"img\" aria-label=\"where the time of each round went\" font-size=\"12\">\n";
  svg += fmt::format("<text x=\"54\" y=\"18\" text-anchor=\"end\" fill=\"currentColor\">{}</text>\n",
                     SecondsText(longest));
  for (size_t bar = 0; bar < all.size(); ++bar) {
    double y = kBottom;
    const RoundRow &from = attempts[all[bar].first], &to = attempts[all[bar].last];
    std::string title = from.round == to.round ? fmt::format("round {}", from.round)
                                               : fmt::format("rounds {} to {}", from.round, to.round);
    for (size_t part = 0; part < 3; ++part)
      title += fmt::format(", {} {}", kPartNames[part], SecondsText(all[bar].parts[part]));
    if (all[bar].given_up) title += ", an attempt was given up";
    svg += fmt::format("<g><title>{}</title>", XmlText(title));
    for (size_t part = 0; part < 3; ++part) {
      const double height = all[bar].parts[part] / longest * (kBottom - kTop);
      y -= height;
      if (height > 0.05)
        svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>",
                           kLeft + step * static_cast<double>(bar), y, std::max(step - 1, 0.5), height,
                           kPartColours[part]);
    }
    if (all[bar].given_up)
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"currentColor\">✗</text>",
                         kLeft + step * (static_cast<double>(bar) + 0.5), std::max(y - 2, 12.0));
    svg += "</g>\n";
  }
  svg += fmt::format(
      "<path d=\"M{0} {1}H{2}\" stroke=\"currentColor\" stroke-opacity=\"0.6\"/>"
      "<text x=\"{0}\" y=\"144\" fill=\"currentColor\">round {3}</text>"
      "<text x=\"{2}\" y=\"144\" text-anchor=\"end\" fill=\"currentColor\">round {4}</text>\n",
      kLeft, kBottom, kRight, attempts.front().round, attempts.back().round);
  for (size_t part = 0; part < 3; ++part)
    svg += fmt::format(
        "<rect x=\"{0:.0f}\" y=\"158\" width=\"12\" height=\"12\" fill=\"{1}\"/>"
        "<text x=\"{2:.0f}\" y=\"168\" fill=\"currentColor\">{3}</text>\n",
        kLeft + 150 * static_cast<double>(part), kPartColours[part], kLeft + 18 + 150 * static_cast<double>(part),
        kPartNames[part]);
  return svg + "</svg>\n";
}

std::string CurveSvg(const std::string& name, const std::vector<std::pair<std::string, const Curve*>>& runs) {
  Chart chart{.title = name, .x_label = "round", .series = {}};
  for (const auto& [run_id, curve] : runs) {
    if (curve == nullptr) continue;
    ChartSeries& series = chart.series.emplace_back();
    series.label = run_id;
    for (const auto& [round, value] : curve->points) series.points.emplace_back(static_cast<double>(round), value);
  }
  return fmt::format("<figure>{}</figure>\n", ChartSvg(chart, false));
}

std::string RunHead(const RunOverview& page, const std::string& folder) {
  std::vector<std::vector<std::string>> facts;
  const auto fact = [&](const char* name, std::string value) {
    if (!value.empty()) facts.push_back({fmt::format("<b>{}</b>", name), std::move(value)});
  };
  fact("status", StatusHtml(page.run.status));
  fact("why", XmlText(page.first_reason));
  fact("rounds", page.rounds_wanted > 0 ? fmt::format("{} of {}", page.committed(), page.rounds_wanted)
                                        : fmt::format("{}", page.committed()));
  fact("began", XmlText(page.run.started_at));
  fact("took", SecondsText(page.time.total));
  fact("seed", fmt::format("{}", page.run.seed));
  if (page.bytes_down + page.bytes_up > 0)
    fact("sent", fmt::format("{} to clients, {} from them", BytesText(page.bytes_down), BytesText(page.bytes_up)));
  for (const TagRow& tag : page.tags) fact("tag", XmlText(tag.tag));
  for (const NoteRow& note : page.notes) fact("note", XmlText(note.at.substr(0, 10) + ": " + note.text));
  if (const ModelRow* model = page.newest_model())
    fact("model", fmt::format("<code>{}</code>, {} parameters, {}", XmlText(JoinPath(folder, model->path)),
                              model->parameters, BytesText(model->bytes)));
  std::string html = "<table class=\"facts\"><tbody>";
  for (const auto& row : facts) html += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", row[0], row[1]);
  return html + "</tbody></table>\n";
}

std::string RoundsTable(const RunOverview& page, int64_t first_round, const std::string& address) {
  const size_t first = LeafOf(first_round, page.attempts.size());
  const Curve *accuracy = page.curve("test/accuracy"), *loss = page.curve("test/loss");
  const auto at = [](const Curve* curve, int64_t round) -> std::string {
    if (curve == nullptr) return "";
    const auto point = std::ranges::lower_bound(curve->points, round, {}, [](const auto& p) { return p.first; });
    return point != curve->points.end() && point->first == round ? fmt::format("{:.4f}", point->second) : "";
  };
  std::vector<std::vector<std::string>> rows;
  for (size_t i = first; i < std::min(first + kRowsOfAPage, page.attempts.size()); ++i) {
    const RoundRow& round = page.attempts[i];
    const bool committed = round.status == "committed";
    rows.push_back({fmt::format("{}", round.round), fmt::format("{}", round.attempt), XmlText(round.status),
                    fmt::format("{}", round.selected), fmt::format("{}", round.folded),
                    fmt::format("{}", round.refused), fmt::format("{}", round.dropped), fmt::format("{}", round.failed),
                    Share(round.train_loss), committed ? at(accuracy, round.round) : "",
                    committed ? at(loss, round.round) : "", SecondsText(round.train_seconds),
                    SecondsText(round.aggregate_seconds), XmlText(round.reason)});
  }
  return "<h2 id=\"rounds\">Rounds</h2>\n" + Timeline(page.attempts) +
         LeafLinks(address + "&rounds=", first, page.attempts.size(), "rounds") +
         HtmlTable({"round#", "attempt#", "status", "drawn#", "folded#", "refused#", "dropped#", "failed#",
                    "train loss#", "test accuracy#", "test loss#", "clients#", "aggregation#", "reason"},
                   rows);
}

// Those that give most to think about come first.
StatusOr<std::string> ClientsTable(History& history, RunOverview& page, int64_t first_client,
                                   const std::string& address) {
  if (page.clients.empty()) return std::string();
  const size_t first = LeafOf(first_client, page.clients.size());
  std::ranges::stable_sort(page.clients, {}, &ClientReliabilityRow::reliability);
  const std::span shown = std::span(page.clients).subspan(first, std::min(kRowsOfAPage, page.clients.size() - first));
  RIVULET_ASSIGN_OR_RETURN(const auto failed, ClientFailures(history, page.run.run_id, shown));
  std::map<std::string, const ClientFailuresRow*> failures;
  for (const ClientFailuresRow& failure : failed) failures[failure.client_id] = &failure;
  std::vector<std::vector<std::string>> rows;
  for (const ClientReliabilityRow& client : shown) {
    const auto failure = failures.find(client.client_id);
    std::string last;
    if (failure != failures.end())
      last = fmt::format("round {} {} {}", failure->second->last_round, XmlText(failure->second->status),
                         XmlText(failure->second->error));
    rows.push_back({XmlText(client.client_id), fmt::format("{}", client.tasks), PercentText(client.reliability),
                    fmt::format("{}", client.refused), fmt::format("{}", client.dropped),
                    fmt::format("{}", client.failed), fmt::format("{}", client.examples),
                    client.mean_train_seconds ? SecondsText(*client.mean_train_seconds) : "",
                    XmlText(client.last_seen_at), last});
  }
  return "<h2 id=\"clients\">Clients</h2>\n" + LeafLinks(address + "&clients=", first, page.clients.size(), "clients") +
         HtmlTable({"client", "tasks#", "came through#", "refused#", "dropped#", "failed#", "examples#",
                    "a task takes#", "last seen (UTC)", "what last went wrong"},
                   rows);
}

}  // namespace

StatusOr<std::string> RunsPage(History& history, int64_t first_run) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<ListedRun> runs, LoadListedRuns(history));
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
  bool running = false;
  for (size_t i = first; i < end; ++i) {
    const ListedRun& run = runs[i];
    running = running || run.row.status == "running";
    const Cell wanted = ValueUnder(run, "run.rounds");
    std::vector<std::string> row = {
        fmt::format("<input type=\"checkbox\" name=\"run\" value=\"{0}\" aria-label=\"compare {0}\">",
                    XmlText(run.row.run_id)),
        RunLink(run.row.run_id),
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
    row.push_back(XmlText(fmt::format("{}", fmt::join(run.tags, ", "))));
    rows.push_back(std::move(row));
  }
  std::string body = runs.empty()
                         ? "<p>No runs yet.</p>\n"
                         : LeafLinks("/?runs=", first, runs.size(), "") +
                               "<form action=\"/compare\" method=\"get\">\n" + HtmlTable(titles, rows) +
                               "<p><button type=\"submit\">Compare those that are ticked</button></p></form>\n";
  body += "<p class=\"faint\">A round appears when it has been written.</p>\n";
  return PageOf("Runs", body, running ? 5 : 0);
}

StatusOr<std::string> RunPage(History& history, const std::string& run, int64_t first_round, int64_t first_client) {
  RIVULET_ASSIGN_OR_RETURN(RunOverview page, LoadOverview(history, run));
  RIVULET_ASSIGN_OR_RETURN(const auto events, history.Events(page.run.run_id));
  const std::string address = "/run?id=" + UrlText(page.run.run_id);
  std::string body = RunHead(page, FolderOf(history.real_path()));
  if (!page.curves.empty()) {
    body += "<h2>How it went</h2>\n<div class=\"curves\">\n";
    for (const Curve& curve : page.curves) body += CurveSvg(curve.name, {{page.run.run_id, &curve}});
    body += "</div>\n";
  }
  RIVULET_ASSIGN_OR_RETURN(const std::string clients, ClientsTable(history, page, first_client, address));
  body += RoundsTable(page, first_round, address) + clients;
  std::vector<std::vector<std::string>> keys, log;
  for (const auto& [key, value] : page.keys)
    keys.push_back({fmt::format("<code>{}</code>", XmlText(key)), fmt::format("<code>{}</code>", XmlText(value))});
  body += "<h2>What differs from the defaults</h2>\n" + HtmlTable({"key", "value"}, keys);
  body += fmt::format("<details><summary>The whole configuration</summary><pre>{}</pre></details>\n",
                      XmlText(page.run.config));
  const size_t first_event = events.size() - std::min(events.size(), kEventsOfAPage);
  for (size_t i = events.size(); i > first_event; --i) {
    const EventRow& event = events[i - 1];
    log.push_back({XmlText(event.at), XmlText(event.level), event.round ? fmt::format("{}", *event.round) : "",
                   XmlText(event.message)});
  }
  body += "<h2>Log, newest first</h2>\n" + HtmlTable({"at (UTC)", "level", "round#", "message"}, log);
  return PageOf(page.run.run_id, body, page.run.status == "running" ? 5 : 0);
}

StatusOr<std::string> ComparePage(History& history, const std::vector<std::string>& names) {
  if (names.size() < 2) return InvalidArgument("there is nothing to compare; tick at least two runs");
  RIVULET_ASSIGN_OR_RETURN(const std::vector<ListedRun> listed, LoadListedRuns(history));
  struct Compared {
    const ListedRun* run;
    std::vector<Curve> curves;
  };
  std::vector<Compared> runs;
  for (const std::string& name : names) {
    RIVULET_ASSIGN_OR_RETURN(const RunRow row, history.ResolveRun(name));
    RIVULET_ASSIGN_OR_RETURN(std::vector<Curve> curves, LoadCurves(history, row.run_id));
    for (const ListedRun& run : listed)
      if (run.row.run_id == row.run_id) runs.push_back({&run, std::move(curves)});
  }
  std::vector<std::map<std::string, std::string>> keys;
  std::vector<std::string> titles = {"key"}, metrics;
  for (const Compared& run : runs) {
    keys.push_back(run.run->keys);
    titles.push_back(run.run->row.run_id);
    for (const Curve& curve : run.curves)
      if (std::ranges::find(metrics, curve.name) == metrics.end()) metrics.push_back(curve.name);
  }
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> status = {"status"}, best = {"best accuracy"};
  for (const Compared& run : runs) {
    status.push_back(StatusHtml(run.run->row.status));
    best.push_back(Share(run.run->row.best_accuracy));
  }
  rows.push_back(std::move(status));
  rows.push_back(std::move(best));
  for (const std::string& key : DifferingKeys(keys)) {
    std::vector<std::string> row = {fmt::format("<code>{}</code>", XmlText(key))};
    for (const Compared& run : runs) {
      const auto value = run.run->keys.find(key);
      row.push_back(value == run.run->keys.end() ? "" : fmt::format("<code>{}</code>", XmlText(value->second)));
    }
    rows.push_back(std::move(row));
  }
  std::string body = "<p>";
  for (const Compared& run : runs) body += RunLink(run.run->row.run_id) + " ";
  body +=
      "</p>\n<h2>What differed</h2>\n" + HtmlTable(titles, rows) + "<h2>How they went</h2>\n<div class=\"curves\">\n";
  for (const std::string& metric : metrics) {
    std::vector<std::pair<std::string, const Curve*>> curves;
    for (const Compared& run : runs) {
      const auto curve = std::ranges::find(run.curves, metric, &Curve::name);
      curves.emplace_back(run.run->row.run_id, curve == run.curves.end() ? nullptr : &*curve);
    }
    body += CurveSvg(metric, curves);
  }
  return PageOf("Runs compared", body + "</div>\n");
}

std::string ErrorPage(std::string_view title, std::string_view sentence) {
  return PageOf(title, fmt::format("<p>{}</p>\n<p><a href=\"/\">All runs</a></p>\n", XmlText(sentence)));
}

std::string_view StyleSheet() {
  return R"css(:root { color-scheme: light dark; --ground: #ffffff; --ink: #1b1f23; --faint: #5c6670; --line: #d5dae0;
  --head: #f3f5f7; --link: #005a9c; --good: #007048; --bad: #b03a00; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #14181c; --ink: #e4e8ec; --faint: #9aa5b1; --line: #333c45; --head: #1e242a; --link: #7cc0ff;
    --good: #4fd1a1; --bad: #ff9a66; }
}
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
header { padding: .6rem 1.2rem; border-bottom: 1px solid var(--line); font-weight: 600; }
main { padding: 0 1.2rem 3rem; max-width: 90rem; }
h1 { font-size: 1.3rem; overflow-wrap: anywhere; } h2 { font-size: 1.05rem; margin-top: 2rem; }
a { color: var(--link); } a:focus-visible, input:focus-visible, button:focus-visible { outline: 2px solid var(--link); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top; }
thead th { background: var(--head); position: sticky; top: 0; white-space: nowrap; }
.n { text-align: right; white-space: nowrap; }
.facts th { font-weight: normal; color: var(--faint); } .facts b { font-weight: normal; }
.status { white-space: nowrap; } .finished { color: var(--good); } .failed, .interrupted { color: var(--bad); }
.curves { display: flex; flex-wrap: wrap; gap: 1rem; } figure { margin: 0; flex: 1 1 26rem; max-width: 45rem; }
svg { width: 100%; max-width: 45rem; height: auto; }
.faint, .leaf { color: var(--faint); } pre { overflow-x: auto; background: var(--head); padding: .8rem; }
)css";
}

}  // namespace rivulet
