// The page of one run.
#include <algorithm>
#include <map>

#include "cli/dashboard/live_run.h"
#include "cli/dashboard/page_parts.h"
#include "cli/dashboard/pages.h"
#include "cli/picture/histogram.h"
#include "cli/picture/picture.h"
#include "cli/quantities.h"
#include "cli/runs/overview.h"
#include "engine/base/file_system.h"

namespace rivulet {
namespace {

constexpr size_t kEventsOfAPage = 100;  // the newest

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

std::string RoundsTable(const RunOverview& page, int64_t first_round, const std::string& place) {
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
    rows.push_back({RoundLink(place, round.round, fmt::format("{}", round.round)), fmt::format("{}", round.attempt),
                    XmlText(round.status), fmt::format("{}", round.selected), fmt::format("{}", round.folded),
                    fmt::format("{}", round.refused), fmt::format("{}", round.dropped), fmt::format("{}", round.failed),
                    Share(round.train_loss), committed ? at(accuracy, round.round) : "",
                    committed ? at(loss, round.round) : "", SecondsText(round.train_seconds),
                    SecondsText(round.aggregate_seconds), XmlText(round.reason)});
  }
  return "<h2 id=\"rounds\">Rounds</h2>\n" + Timeline(page.attempts) +
         LeafLinks("/run?id=" + UrlText(place) + "&rounds=", first, page.attempts.size(), "rounds") +
         HtmlTable({"round#", "attempt#", "status", "drawn#", "folded#", "refused#", "dropped#", "failed#",
                    "train loss#", "test accuracy#", "test loss#", "clients#", "aggregation#", "reason"},
                   rows);
}

// Those that give most to think about come first.
StatusOr<std::string> ClientsTable(History& history, RunOverview& page, int64_t first_client,
                                   const std::string& place) {
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
    rows.push_back(
        {ClientLink(place, client.client_id), fmt::format("{}", client.tasks), PercentText(client.reliability),
         fmt::format("{}", client.refused), fmt::format("{}", client.dropped), fmt::format("{}", client.failed),
         fmt::format("{}", client.examples), client.mean_train_seconds ? SecondsText(*client.mean_train_seconds) : "",
         XmlText(client.last_seen_at), last});
  }
  return "<h2 id=\"clients\">Clients</h2>\n" +
         LeafLinks("/run?id=" + UrlText(place) + "&clients=", first, page.clients.size(), "clients") +
         HtmlTable({"client", "tasks#", "came through#", "refused#", "dropped#", "failed#", "examples#",
                    "a task takes#", "last seen (UTC)", "what last went wrong"},
                   rows);
}

// How losses, norms and staleness of the newest updates are spread: of some 20,000, however many a run has.
StatusOr<std::string> Spread(History& history, const RunOverview& page) {
  constexpr int64_t kUpdatesRead = 20'000;
  int64_t from = 0, updates = 0;
  for (auto round = page.attempts.rbegin(); round != page.attempts.rend() && updates < kUpdatesRead; ++round) {
    updates += round->folded;
    from = round->round;
  }
  if (updates == 0) return std::string();
  RIVULET_ASSIGN_OR_RETURN(const SqlAnswer answer,
                           history.Ask("SELECT train_loss, update_norm, staleness FROM client_rounds WHERE run_id = ? "
                                       "AND round >= ? AND kind = 'train' AND status = 'folded'",
                                       {page.run.run_id, from}));
  constexpr const char* kTitles[] = {"train loss of an update", "norm of an update", "staleness of an update"};
  std::string html = fmt::format("<h2>How updates are spread, from round {} on</h2>\n<div class=\"curves\">\n", from);
  for (size_t column = 0; column < std::size(kTitles); ++column) {
    std::vector<double> values;
    for (const auto& row : answer.rows) {
      if (const auto* real = std::get_if<double>(&row[column])) values.push_back(*real);
      if (const auto* whole = std::get_if<int64_t>(&row[column])) values.push_back(static_cast<double>(*whole));
    }
    // Where every update is of the newest version there is nothing to see.
    if (values.empty() || (column == 2 && std::ranges::all_of(values, [](double value) { return value == 0; })))
      continue;
    html += fmt::format("<figure>{}</figure>\n", PictureSvg(HistogramPicture(kTitles[column], values), false));
  }
  return html + "</div>\n";
}

}  // namespace

StatusOr<std::string> RunPage(const PlacedRun& placed, int64_t first_round, int64_t first_client, LiveRun* live) {
  History& history = placed.history;
  RIVULET_ASSIGN_OR_RETURN(RunOverview page, LoadOverview(history, placed.run));
  RIVULET_ASSIGN_OR_RETURN(const auto events, history.Events(page.run.run_id));
  const std::string place = placed.prefix + page.run.run_id, address = "/run?id=" + UrlText(place);
  std::string body = RunHead(page, FolderOf(history.real_path())) +
                     fmt::format(
                         "<p><a href=\"/model?run={0}\">its model</a> · <a href=\"/labels?run={0}\">labels by "
                         "client</a></p>\n",
                         UrlText(place));
  const bool is_live = live != nullptr && live->run_id() == page.run.run_id;
  if (is_live) {
    body += "<h2>What happens now</h2>\n" + live->Panel();
  } else if (!page.curves.empty()) {
    body += "<h2>How it went</h2>\n<div class=\"curves\">\n";
    for (const Curve& curve : page.curves) body += CurveSvg(curve.name, {{page.run.run_id, &curve}});
    body += "</div>\n";
  }
  RIVULET_ASSIGN_OR_RETURN(const std::string clients, ClientsTable(history, page, first_client, place));
  RIVULET_ASSIGN_OR_RETURN(const std::string spread, Spread(history, page));
  body += RoundsTable(page, first_round, place) + clients + spread;
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
  const bool runs = page.run.status == "running";
  if (runs && !is_live) body += fmt::format("<p class=\"faint\">{}</p>\n", kRowsAppear);
  return PageOf(page.run.run_id, body, is_live ? Renewal::kByFeed : runs ? Renewal::kEveryFiveSeconds : Renewal::kNone);
}

}  // namespace rivulet
