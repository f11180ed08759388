#include "pages/run_cards.h"

#include <algorithm>
#include <array>
#include <map>

#include "engine/base/quantities.h"
#include "inspect/client_standing.h"
#include "inspect/spread.h"
#include "pages/figures.h"
#include "pages/page_parts.h"
#include "pages/round_pictures.h"

namespace rivulet {
namespace {

constexpr int64_t kWorstShown = 3;
constexpr size_t kReasonsShown = 3, kMetricsShown = 3, kExcludedShown = 3;
constexpr double kCardWidth = 300;

std::string Item(const std::string& html, bool faint = false) {
  return fmt::format("<li{}>{}</li>", faint ? " class=\"faint\"" : "", html);
}

std::string HealthCard(const RunOverview& run, const Health& health) {
  constexpr std::pair<const char*, const char*> kGrades[] = {
      {"healthy", "Healthy"}, {"attention", "Needs a look"}, {"unhealthy", "Failed"}};
  const auto& [grade, word] = kGrades[static_cast<size_t>(health.grade)];
  std::string more, items;
  const int64_t committed = run.committed();
  if (run.rounds_wanted > 0) {
    more = fmt::format("<progress max=\"{0}\" value=\"{1}\" aria-label=\"rounds\"></progress>", run.rounds_wanted,
                       std::min(committed, run.rounds_wanted));
    items += Item(fmt::format("{} of {} rounds", committed, run.rounds_wanted));
  } else {
    items += Item(fmt::format("{} rounds", committed));
  }
  size_t said = 0;
  for (const std::string& reason : health.reasons) {
    if (run.run.status == "failed" && reason == run.run.reason) continue;  // it is shown above the cards
    if (said++ < kReasonsShown) items += Item(XmlText(reason));
  }
  int64_t tasks = 0, folded = 0;
  for (const RoundRow& attempt : run.attempts) {
    tasks += attempt.selected;
    folded += attempt.folded;
  }
  if (tasks > 0)
    items += Item(
        fmt::format("{} of tasks aggregated", PercentText(static_cast<double>(folded) / static_cast<double>(tasks))),
        true);
  return CardHtml("Is it healthy?", word, more + "<ul>" + items + "</ul>", grade);
}

std::string ResultCard(const RunOverview& run) {
  std::vector<std::string> names;
  for (const Curve& curve : run.curves) names.push_back(curve.name);
  const Curve* const first = run.curve(FirstMetric(names));
  if (first == nullptr)
    return CardHtml("How good is it?", "–", "<ul><li class=\"faint\">nothing is measured yet</li></ul>");
  const auto& [round, best] = first->best();
  std::string items = Item(fmt::format("round {}; last {}", round, MetricText(first->points.back().second)));
  size_t shown = 0;
  for (const Curve& curve : run.curves) {
    if (&curve == first || shown++ >= kMetricsShown) continue;
    items += Item(fmt::format("{} {}", XmlText(curve.name), MetricText(curve.points.back().second)), true);
  }
  if (const auto worst = first->spread.find("worst_decile"); worst != first->spread.end())
    items += Item(fmt::format("worst tenth of clients {}", MetricText(worst->second)), true);
  return CardHtml("How good is it?", fmt::format("{} <small>best {}</small>", MetricText(best), XmlText(first->name)),
                  SparklineSvg(*first, kCardWidth) + "<ul>" + items + "</ul>");
}

// The client with the longest task, among those whose newest tasks were aggregated.
std::pair<std::string, double> Slowest(const std::vector<TaskInTime>& tasks) {
  std::map<std::string, std::pair<double, int64_t>> by_client;
  for (const TaskInTime& task : tasks) {
    if (task.status != "folded") continue;
    auto& [seconds, count] = by_client[task.client_id];
    seconds += SecondsOf(TaskPartsOf(task.wait_seconds, task.train_seconds, task.upload_seconds));
    ++count;
  }
  std::pair<std::string, double> slowest{"", 0};
  for (const auto& [client, sum] : by_client) {
    const double mean = sum.first / static_cast<double>(sum.second);
    if (mean > slowest.second) slowest = {client, mean};
  }
  return slowest;
}

std::string TimeCard(const RunOverview& run, const std::vector<TaskInTime>& newest, const std::string& place) {
  struct Part {
    const char* name;
    double seconds;
    const char* colour;
  };
  const Part parts[] = {{"clients at work", run.time.training, kColours[5]},
                        {"aggregation", run.time.aggregating, kColours[1]},
                        {"evaluation", run.time.evaluating, kColours[2]},
                        {"between rounds", run.time.rest, kColours[6]}};
  if (run.attempts.empty() || run.time.total <= 0)
    return CardHtml("What is slow?", "–", "<ul><li class=\"faint\">no round has closed yet</li></ul>");
  Picture bar{.width = kCardWidth, .height = 12, .label = "where the time went", .marks = {}};
  std::string legend;
  double x = 0;
  for (const Part& part : parts) {
    const double share = part.seconds / run.time.total;
    if (share > 0) bar.Rectangle(x, 0, share * kCardWidth, 12, part.colour).title = SecondsText(part.seconds);
    x += share * kCardWidth;
    Picture key{.width = 10, .height = 10, .label = "", .marks = {}};
    key.Rectangle(0, 0, 10, 10, part.colour);
    legend += fmt::format("<span>{}{} {}</span>", PictureSvg(key, false), part.name, PercentText(share));
  }
  std::string items;
  if (const auto [client, seconds] = Slowest(newest); !client.empty() && seconds > 0)
    items += Item(fmt::format("slowest client: {}, {} a task", ClientLink(place, client), SecondsText(seconds)));
  if (run.virtual_seconds) items += Item(fmt::format("virtual time {}", SecondsText(*run.virtual_seconds)), true);
  if (run.bytes_down + run.bytes_up > 0)
    items += Item(fmt::format("{} to clients, {} from them", BytesText(run.bytes_down), BytesText(run.bytes_up)), true);
  return CardHtml(
      "What is slow?",
      fmt::format("{} <small>a round, {} in all</small>",
                  SecondsText(run.time.total / static_cast<double>(run.attempts.size())), SecondsText(run.time.total)),
      PictureSvg(bar, false) + "<p class=\"legend small\">" + legend + "</p><ul>" + items + "</ul>");
}

std::string ClientsCard(const RunOverview& run, const FailingClients& clients, const std::string& place) {
  std::string items;
  for (const ClientReliabilityRow& client : clients.worst)
    items += Item(fmt::format("{} <span class=\"faint\">{} of {} tasks</span>", ClientLink(place, client.client_id),
                              client.failed + client.refused, client.tasks));
  for (size_t i = 0; i < std::min(clients.excluded.size(), kExcludedShown); ++i) {
    const auto& [client, status] = clients.excluded[i];
    items += Item(fmt::format("{} {}", ClientLink(place, client), StatusHtml(status)));
  }
  if (clients.excluded.size() > kExcludedShown)
    items += Item(fmt::format("and {} more are excluded", clients.excluded.size() - kExcludedShown));
  int64_t failed = 0, refused = 0, dropped = 0;
  for (const RoundRow& attempt : run.attempts) {
    failed += attempt.failed;
    refused += attempt.refused;
    dropped += attempt.dropped;
  }
  items += Item(fmt::format("tasks: {} failed, {} refused, {} dropped", failed, refused, dropped), true);
  return CardHtml("Who failed?",
                  clients.failing == 0 ? fmt::format("None <small>of {} clients</small>", clients.seen)
                                       : fmt::format("{} <small>of {} clients</small>", clients.failing, clients.seen),
                  "<ul>" + items + "</ul>");
}

}  // namespace

StatusOr<FailingClients> LoadFailingClients(History& history, const std::string& run_id) {
  FailingClients clients;
  RIVULET_ASSIGN_OR_RETURN(const SqlAnswer counts,
                           history.Ask("SELECT count(*), coalesce(sum(failed + refused > 0), 0) FROM "
                                       "client_reliability WHERE run_id = ?",
                                       {run_id}));
  const auto number = [](const SqlShown& cell) {
    const auto* value = std::get_if<int64_t>(&cell);
    return value == nullptr ? int64_t{0} : *value;
  };
  clients.seen = number(counts.rows.at(0).at(0));
  clients.failing = number(counts.rows.at(0).at(1));
  if (clients.failing > 0) {
    RIVULET_ASSIGN_OR_RETURN(
        const SqlAnswer worst,
        history.Ask("SELECT client_id, tasks, failed, refused FROM client_reliability WHERE run_id = ? AND "
                    "failed + refused > 0 ORDER BY failed + refused DESC, client_id LIMIT ?",
                    {run_id, kWorstShown}));
    for (const auto& row : worst.rows) {
      ClientReliabilityRow& client = clients.worst.emplace_back();
      if (const auto* name = std::get_if<std::string>(&row[0])) client.client_id = *name;
      client.tasks = number(row[1]);
      client.failed = number(row[2]);
      client.refused = number(row[3]);
    }
  }
  RIVULET_ASSIGN_OR_RETURN(const auto standings, Standings(history));
  for (const auto& [client, standing] : standings) {
    if (standing.status == "approved") continue;
    RIVULET_ASSIGN_OR_RETURN(const auto totals, history.ReliabilityOf(run_id, client));
    if (totals) clients.excluded.emplace_back(client, standing.status);
  }
  return clients;
}

std::string RunCards(const RunOverview& run, const Health& health, const FailingClients& clients,
                     const std::vector<TaskInTime>& newest, const std::string& place) {
  return "<div class=\"cards\" id=\"cards\">\n" + HealthCard(run, health) + ResultCard(run) +
         TimeCard(run, newest, place) + ClientsCard(run, clients, place) + "</div>\n";
}

}  // namespace rivulet
