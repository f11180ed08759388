// The page of one run.
#include <algorithm>
#include <map>

#include "engine/base/file_system.h"
#include "engine/base/quantities.h"
#include "inspect/client_standing.h"
#include "inspect/health.h"
#include "inspect/overview.h"
#include "inspect/pauses.h"
#include "inspect/privacy_spend.h"
#include "pages/figures.h"
#include "pages/live_run.h"
#include "pages/page_parts.h"
#include "pages/pages.h"
#include "pages/round_pictures.h"
#include "pages/run_cards.h"
#include "pages/update_histograms.h"

namespace rivulet {
namespace {

constexpr size_t kEventsOfAPage = 100;  // the newest

// The run's name, its status, and a line of facts.
std::string Heading(const RunOverview& page, const std::map<std::string, std::string>& keys, const std::string& status,
                    const std::string& place) {
  std::string html = fmt::format("<div class=\"title\"><h1>{}</h1>{}", XmlText(page.run.name), StatusHtml(status));
  for (const auto& [key, title] :
       {std::pair("algorithm.name", ""), {"client.optimizer.learning_rate", "learning rate"}}) {
    const auto found = keys.find(key);
    if (found == keys.end()) continue;
    const Cell cell = CellOfToml(found->second);
    const auto* text = std::get_if<std::string>(&cell);
    html += Chip(title, text != nullptr ? *text : found->second);
  }
  for (const TagRow& tag : page.tags) html += Chip("#" + tag.tag, "");
  html += fmt::format(
      "<span class=\"actions\"><a href=\"/model?run={0}\">model</a> · <a href=\"/labels?run={0}\">labels by client</a>"
      "</span></div>\n<div class=\"under small\"><span>{1}</span><span>seed {2}</span><span>began {3}</span>"
      "<span>took {4}</span></div>\n",
      UrlText(place), XmlText(page.run.run_id), page.run.seed, TimeHtml(page.run.started_at),
      SecondsText(page.time.total));
  if (page.run.status == "failed" && !page.run.reason.empty())
    html += fmt::format("<div class=\"says failed\"><p>{}</p></div>\n", XmlText(page.run.reason));
  for (const NoteRow& note : page.notes)
    html += fmt::format("<p class=\"note\">{} <span class=\"faint\">{}</span></p>\n", XmlText(note.text),
                        TimeHtml(note.at));
  return html;
}

std::string Places(bool has_tasks, bool has_updates) {
  std::string html =
      "<nav class=\"places\" aria-label=\"parts of this page\"><a href=\"#curves\">Curves</a>"
      "<a href=\"#rounds\">Rounds</a>";
  if (has_tasks) html += "<a href=\"#tasks\">Tasks</a><a href=\"#clients\">Clients</a>";
  if (has_updates) html += "<a href=\"#updates\">Updates</a>";
  return html + "<a href=\"#configuration\">Configuration</a><a href=\"#log\">Log</a></nav>\n";
}

// A form to go to any round or client that the shown table page omits.
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
    return point != curve->points.end() && point->first == round ? MetricText(point->second) : "";
  };
  std::vector<std::vector<std::string>> rows;
  for (size_t i = first; i < std::min(first + kRowsOfAPage, page.attempts.size()); ++i) {
    const RoundRow& round = page.attempts[page.attempts.size() - 1 - i];  // newest first
    const bool committed = round.status == "committed";
    rows.push_back({RoundLink(place, round.round, fmt::format("{}", round.round)), fmt::format("{}", round.attempt),
                    StatusHtml(round.status) + WhyHtml(round.reason), fmt::format("{}", round.selected),
                    fmt::format("{}", round.folded), fmt::format("{}", round.refused), fmt::format("{}", round.dropped),
                    fmt::format("{}", round.failed), Share(round.train_loss),
                    committed ? at(accuracy, round.round) : "", committed ? at(loss, round.round) : "",
                    SecondsText(round.train_seconds), SecondsText(round.aggregate_seconds)});
  }
  std::string html = HeadingHtml("rounds", "Rounds, newest first",
                                 {TableDownload("of=rounds&run=" + UrlText(place), page.run.run_id + "-rounds")});
  if (const std::optional<Picture> picture = RoundsPicture(page.attempts, place); picture)
    html += FigureHtml("seconds of each round", "", *picture,
                       PictureDownloads("of=rounds&run=" + UrlText(place), page.run.run_id + "-rounds"), true) +
            "<p></p>\n";
  return html + LeafLinks("/run?id=" + UrlText(place) + "&rounds=", first, page.attempts.size(), "rounds") +
         HtmlTable({"round#", "attempt#", "status", "selected#", "folded#", "refused#", "dropped#", "failed#",
                    "?train loss#", "?test accuracy#", "?test loss#", "clients#", "aggregation#"},
                   rows);
}

// The clients with the most problems come first.
StatusOr<std::string> ClientsTable(History& history, const std::string& run_id, size_t clients, int64_t first_client,
                                   const std::string& place) {
  if (clients == 0) return std::string();
  const size_t first = LeafOf(first_client, clients);
  RIVULET_ASSIGN_OR_RETURN(const auto shown, history.LeastReliable(run_id, kRowsOfAPage, first));
  RIVULET_ASSIGN_OR_RETURN(const auto failed, ClientFailures(history, run_id, shown));
  RIVULET_ASSIGN_OR_RETURN(const auto standings, Standings(history));
  std::map<std::string, const ClientFailuresRow*> failures;
  for (const ClientFailuresRow& failure : failed) failures[failure.client_id] = &failure;
  std::vector<std::vector<std::string>> rows;
  for (const ClientReliabilityRow& client : shown) {
    const auto failure = failures.find(client.client_id);
    std::string last;
    if (failure != failures.end())
      last = fmt::format("last failure: round {}, {}: {}", failure->second->last_round, failure->second->status,
                         failure->second->error);
    const auto standing = standings.find(client.client_id);
    rows.push_back({ClientLink(place, client.client_id),
                    StatusHtml(standing == standings.end() ? "active" : standing->second.status) + WhyHtml(last),
                    TimeHtml(client.last_seen_at), fmt::format("{}", client.tasks), PercentText(client.reliability),
                    fmt::format("{}", client.refused), fmt::format("{}", client.dropped),
                    fmt::format("{}", client.failed),
                    client.folded > 0 ? fmt::format("{}", client.examples / client.folded) : "",
                    client.mean_train_seconds ? SecondsText(*client.mean_train_seconds) : ""});
  }
  return HeadingHtml("clients", "Clients, least reliable first",
                     {TableDownload("of=clients&run=" + UrlText(place), run_id + "-clients")}) +
         LeafLinks("/run?id=" + UrlText(place) + "&clients=", first, clients, "clients") +
         HtmlTable({"client", "status", "last seen", "tasks#", "folded#", "refused#", "dropped#", "failed#",
                    "?examples a task#", "?training a task#"},
                   rows);
}

}  // namespace

StatusOr<std::string> RunPage(const PlacedRun& placed, int64_t first_round, int64_t first_client, LiveRun* live) {
  History& history = placed.history;
  RIVULET_ASSIGN_OR_RETURN(const RunOverview page, LoadOverview(history, placed.run, OverviewParts::kWithoutClients));
  const std::string& run_id = page.run.run_id;
  const std::string place = placed.prefix + run_id;
  RIVULET_ASSIGN_OR_RETURN(const FailingClients failing, LoadFailingClients(history, run_id));
  RIVULET_ASSIGN_OR_RETURN(const auto events, history.NewestEvents(run_id, kEventsOfAPage));
  RIVULET_ASSIGN_OR_RETURN(const auto tasks, NewestTasks(history, run_id, kAttemptsDrawn));
  RIVULET_ASSIGN_OR_RETURN(const auto pauses, PausedRuns(history));
  RIVULET_ASSIGN_OR_RETURN(const auto key_rows, history.RunKeys(run_id));
  std::map<std::string, std::string> stored_keys;
  for (const RunKeyRow& key : key_rows) stored_keys[key.key] = key.value;
  const auto pause = pauses.find(run_id);
  const bool runs = page.run.status == "running", paused = runs && pause != pauses.end();
  const Health health = HealthOf(page, paused ? &pause->second : nullptr);
  RIVULET_ASSIGN_OR_RETURN(const std::vector<UpdateHistogram> updates, UpdateHistograms(history, page));

  const bool is_live = live != nullptr && live->run_id() == run_id;
  std::string body = RunCards(page, health, failing, tasks, place) + Places(!tasks.empty(), !updates.empty());
  if (is_live) {
    body += HeadingHtml("curves", "Now", {}, ChartKnobs()) + live->Panel();
  } else if (const std::string curves = CurveFigures(page.curves, place, run_id); !curves.empty()) {
    body += HeadingHtml("curves", "Curves", {}, ChartKnobs()) + "<div class=\"curves\">\n" + curves + "</div>\n";
  } else {
    body += HeadingHtml("curves", "Curves", {}) + "<p class=\"faint\">A curve begins with the second value.</p>\n";
  }
  if (const std::vector<std::string> spent = PrivacySentences(page); !spent.empty()) {
    body += HeadingHtml("privacy", "Privacy", {});
    for (const std::string& sentence : spent) body += fmt::format("<p>{}.</p>\n", XmlText(sentence));
  }
  RIVULET_ASSIGN_OR_RETURN(const std::string clients,
                           ClientsTable(history, run_id, static_cast<size_t>(failing.seen), first_client, place));
  body += RoundsTable(page, first_round, place) + TasksTimeline(tasks, run_id, place) + clients;
  body += GoTo(place, page.attempts.empty() ? 0 : page.attempts.back().round, failing.seen > 0);
  if (!updates.empty()) {
    body += HeadingHtml("updates", fmt::format("Updates from round {} on", updates.front().from_round), {}) +
            "<div class=\"curves\">\n";
    for (const UpdateHistogram& one : updates)
      body +=
          FigureHtml(one.title, "", one.picture,
                     PictureDownloads(fmt::format("of={}&run={}", one.name, UrlText(place)), run_id + "-" + one.name));
    body += "</div>\n";
  }
  std::vector<std::vector<std::string>> keys;
  for (const auto& [key, value] : page.keys)
    keys.push_back({fmt::format("<code>{}</code>", XmlText(key)), fmt::format("<code>{}</code>", XmlText(value))});
  body += HeadingHtml("configuration", "Configuration: differences from the defaults",
                      {TableDownload("of=configuration&run=" + UrlText(place), run_id + "-configuration")}) +
          HtmlTable({"key", "value"}, keys);
  if (const ModelRow* model = page.newest_model())
    body += fmt::format("<p>Model: <code>{}</code>, {} parameters, {}.</p>\n",
                        XmlText(JoinPath(FolderOf(history.real_path()), model->path)), CountText(model->parameters),
                        BytesText(model->bytes));
  body += fmt::format("<details><summary>The whole configuration</summary><pre>{}</pre></details>\n",
                      XmlText(page.run.config));
  body += HeadingHtml("log", "Log, newest first", {TableDownload("of=log&run=" + UrlText(place), run_id + "-log")}) +
          EventsTable(events);
  if (runs && !is_live) body += fmt::format("<p class=\"faint\">{}</p>\n", kRowsAppear);
  return PageOf({.title = run_id,
                 .path = fmt::format("<span>/ {}</span>", XmlText(run_id)),
                 .heading = Heading(page, stored_keys, paused ? "paused" : page.run.status, place),
                 .renewal = is_live ? Renewal::kByFeed
                            : runs  ? Renewal::kEveryFiveSeconds
                                    : Renewal::kNone},
                body);
}

}  // namespace rivulet
