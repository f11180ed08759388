// The page of one run.
#include <algorithm>
#include <map>

#include "engine/base/file_system.h"
#include "engine/base/quantities.h"
#include "inspect/overview.h"
#include "inspect/picture/histogram.h"
#include "inspect/picture/picture.h"
#include "pages/live_run.h"
#include "pages/page_parts.h"
#include "pages/pages.h"
#include "pages/round_pictures.h"

namespace rivulet {
namespace {

constexpr size_t kEventsOfAPage = 100;  // the newest

std::string RunHead(const RunOverview& page, const std::string& folder) {
  std::vector<std::pair<std::string, std::string>> facts;
  const auto fact = [&](const char* name, std::string value) {
    if (!value.empty()) facts.emplace_back(name, std::move(value));
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
  return FactsTable(facts);
}

// To any round and any client of those that a leaf does not show.
std::string GoTo(const std::string& place, int64_t last_round, bool has_clients) {
  const auto form = [&](const char* page, const std::string& field) {
    return fmt::format(
        "<form action=\"{}\" method=\"get\"><input type=\"hidden\" name=\"run\" value=\"{}\">{}"
        "<button type=\"submit\">show</button></form>\n",
        page, XmlText(place), field);
  };
  std::string html;
  if (last_round > 0)
    html += form("/round", fmt::format("<label>round <input type=\"number\" name=\"round\" min=\"1\" max=\"{0}\" "
                                       "value=\"{0}\" required></label> ",
                                       last_round));
  if (has_clients) html += form("/client", "<label>client <input name=\"client\" required></label> ");
  return html.empty() ? "" : "<div class=\"goto\">" + html + "</div>\n";
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
  return "<h2 id=\"rounds\">Rounds</h2>\n" + RoundsTimeline(page.attempts, place) +
         LeafLinks("/run?id=" + UrlText(place) + "&rounds=", first, page.attempts.size(), "rounds") +
         HtmlTable({"round#", "attempt#", "status", "drawn#", "folded#", "refused#", "dropped#", "failed#",
                    "train loss#", "test accuracy#", "test loss#", "clients#", "aggregation#", "reason"},
                   rows);
}

// How many clients have had a task.
StatusOr<size_t> ClientsSeen(History& history, const std::string& run_id) {
  RIVULET_ASSIGN_OR_RETURN(const SqlAnswer answer,
                           history.Ask("SELECT count(*) FROM client_reliability WHERE run_id = ?", {run_id}));
  const auto* count = std::get_if<int64_t>(&answer.rows.at(0).at(0));
  return count == nullptr ? size_t{0} : static_cast<size_t>(*count);
}

// Those that give most to think about come first.
StatusOr<std::string> ClientsTable(History& history, const std::string& run_id, size_t clients, int64_t first_client,
                                   const std::string& place) {
  if (clients == 0) return std::string();
  const size_t first = LeafOf(first_client, clients);
  RIVULET_ASSIGN_OR_RETURN(const auto shown, history.LeastReliable(run_id, kRowsOfAPage, first));
  RIVULET_ASSIGN_OR_RETURN(const auto failed, ClientFailures(history, run_id, shown));
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
         LeafLinks("/run?id=" + UrlText(place) + "&clients=", first, clients, "clients") +
         HtmlTable({"client", "tasks#", "came through#", "refused#", "dropped#", "failed#", "examples#",
                    "a task takes#", "last seen (UTC)", "what last went wrong"},
                   rows);
}

// How losses, norms and staleness of the newest updates are spread: of some 5,000, however many a run has.
StatusOr<std::string> Spread(History& history, const RunOverview& page) {
  constexpr int64_t kUpdatesRead = 5'000;
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
  RIVULET_ASSIGN_OR_RETURN(const RunOverview page, LoadOverview(history, placed.run, OverviewParts::kWithoutClients));
  RIVULET_ASSIGN_OR_RETURN(const size_t clients_seen, ClientsSeen(history, page.run.run_id));
  RIVULET_ASSIGN_OR_RETURN(const auto events, history.NewestEvents(page.run.run_id, kEventsOfAPage));
  const std::string place = placed.prefix + page.run.run_id;
  std::string body = RunHead(page, FolderOf(history.real_path())) +
                     fmt::format(
                         "<p><a href=\"/model?run={0}\">its model</a> · <a href=\"/labels?run={0}\">labels by "
                         "client</a></p>\n",
                         UrlText(place));
  body += GoTo(place, page.attempts.empty() ? 0 : page.attempts.back().round, clients_seen > 0);
  const bool is_live = live != nullptr && live->run_id() == page.run.run_id;
  if (is_live) {
    body += "<h2>What happens now</h2>\n" + live->Panel();
  } else if (!page.curves.empty()) {
    body += "<h2>How it went</h2>\n<div class=\"curves\">\n";
    for (const Curve& curve : page.curves) body += CurveSvg(curve.name, {{page.run.run_id, &curve}});
    body += "</div>\n";
  }
  RIVULET_ASSIGN_OR_RETURN(const std::string clients,
                           ClientsTable(history, page.run.run_id, clients_seen, first_client, place));
  RIVULET_ASSIGN_OR_RETURN(const std::string spread, Spread(history, page));
  RIVULET_ASSIGN_OR_RETURN(const std::string tasks, TasksTimeline(history, page.run.run_id, place));
  body += RoundsTable(page, first_round, place) + tasks + clients + spread;
  std::vector<std::vector<std::string>> keys;
  for (const auto& [key, value] : page.keys)
    keys.push_back({fmt::format("<code>{}</code>", XmlText(key)), fmt::format("<code>{}</code>", XmlText(value))});
  body += "<h2>What differs from the defaults</h2>\n" + HtmlTable({"key", "value"}, keys);
  body += fmt::format("<details><summary>The whole configuration</summary><pre>{}</pre></details>\n",
                      XmlText(page.run.config));
  body += "<h2>Log, newest first</h2>\n" + EventsTable(events);
  const bool runs = page.run.status == "running";
  if (runs && !is_live) body += fmt::format("<p class=\"faint\">{}</p>\n", kRowsAppear);
  return PageOf(page.run.run_id, body, is_live ? Renewal::kByFeed : runs ? Renewal::kEveryFiveSeconds : Renewal::kNone);
}

}  // namespace rivulet
