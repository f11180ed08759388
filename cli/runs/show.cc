// rivulet runs show: one run on one page.
#include <algorithm>

#include "cli/runs/commands.h"
#include "cli/terminal.h"
#include "engine/base/display_lines.h"
#include "engine/base/file_system.h"
#include "engine/base/join.h"
#include "engine/base/json.h"
#include "engine/base/quantities.h"
#include "inspect/overview.h"
#include "inspect/privacy_spend.h"
#include "inspect/sparkline.h"

namespace rivulet {
namespace {

struct ShowOptions {
  HistoryOptions history;
  std::string run;
  bool config = false;
};

constexpr size_t kPage = 60;         // columns of the page, except for texts without a shorter form
constexpr size_t kSparkline = 20;    // marks of a curve
constexpr size_t kClientsShown = 3;  // slowest, and least reliable
constexpr size_t kReasonColumns = 54;

std::string HeadText(std::string_view title) { return "\n" + Emphasised(Emphasis::kHeading, title) + "\n"; }

// `text` on lines of at most `columns`, broken at spaces, each after `indent`.
std::string Wrapped(std::string_view text, size_t columns, std::string_view indent) {
  std::string lines;
  while (!text.empty()) {
    size_t end = text.size();
    if (end > columns) {
      end = text.rfind(' ', columns);
      if (end == text.npos || end == 0) end = std::min(text.find(' '), text.size());
    }
    lines += fmt::format("{}{}\n", indent, text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string When(const std::string& iso8601) {  // "2025-01-31 14:25:30"
  std::string text = iso8601.substr(0, 19);
  if (text.size() == 19) text[10] = ' ';
  return text;
}

std::string StatusLine(const RunOverview& page) {
  const std::string& status = page.run.status;
  const std::string word = Emphasised(status == "finished"  ? Emphasis::kGood
                                      : status == "running" ? Emphasis::kHeading
                                                            : Emphasis::kBad,
                                      OneLine(status));
  std::string line = fmt::format("{}: round {}", word, page.committed());
  if (page.rounds_wanted > 0) line += fmt::format(" of {}", page.rounds_wanted);
  line += fmt::format(", {} {}\n", status == "running" ? "for" : "in", SecondsText(page.time.total));
  if (page.virtual_seconds) line += fmt::format("virtual time {}\n", SecondsText(*page.virtual_seconds));
  if (page.lanes > 0) {
    const std::string at_once =
        page.lanes == 1 ? "one client at a time" : fmt::format("up to {} clients at once", page.lanes);
    line += fmt::format("trained on a device, {}{}\n", at_once, page.tf32 ? ", by TF32" : "");
  }
  return line;
}

std::string CurvesText(const RunOverview& page) {
  std::vector<Curve> curves = page.curves;
  std::erase_if(curves, [](const Curve& curve) { return curve.name.starts_with(kPrivacyCurves); });
  if (curves.empty()) return "";
  size_t width = 0;
  for (const Curve& curve : curves) width = std::max(width, curve.name.size());
  width = std::min<size_t>(width, 20);
  std::string text = HeadText("How it went");
  for (const Curve& curve : curves) {
    std::vector<double> values;
    for (const auto& [round, value] : curve.points) values.push_back(value);
    std::string name = OneLine(curve.name);
    std::ranges::replace(name, '/', ' ');
    const auto& [best_round, best] = curve.best();
    // One value has no curve, and a best value at the end is not repeated.
    std::string end = values.size() == 1 ? fmt::format("round {}", curve.points.back().first)
                      : best_round == curve.points.back().first
                          ? "the best"
                          : fmt::format("best {} ({})", MetricText(best), best_round);
    const auto low = curve.spread.find("p10"), high = curve.spread.find("p90");
    if (low != curve.spread.end() && high != curve.spread.end())
      end += fmt::format(", clients {} to {}", MetricText(low->second), MetricText(high->second));
    text +=
        fmt::format("  {:<{}} {}{} {} {}\n", name, width, Sparkline(values, kSparkline),
                    std::string(kSparkline - std::min(kSparkline, values.size()), ' '), MetricText(values.back()), end);
  }
  return text;
}

std::string Lost(int64_t refused, int64_t dropped, int64_t failed) {
  std::string text;
  const auto say = [&](int64_t count, const char* what) {
    if (count > 0) text += fmt::format(", {} {}", count, what);
  };
  say(refused, "refused");
  say(dropped, "dropped");
  say(failed, "failed");
  return text;
}

std::string ClientsText(const RunOverview& page) {
  int64_t tasks = 0, folded = 0, refused = 0, dropped = 0, failed = 0;
  for (const ClientReliabilityRow& client : page.clients) {
    tasks += client.tasks;
    folded += client.folded;
    refused += client.refused;
    dropped += client.dropped;
    failed += client.failed;
  }
  if (tasks == 0) return "";
  std::string text = HeadText("Clients");
  text += fmt::format("  {} had {} tasks: {} aggregated{}\n", page.clients.size(), tasks, folded,
                      Lost(refused, dropped, failed));
  std::vector<const ClientReliabilityRow*> slow;
  for (const ClientReliabilityRow& client : page.clients)
    if (client.mean_train_seconds) slow.push_back(&client);
  std::ranges::sort(slow, std::greater{}, [](const auto* client) { return *client->mean_train_seconds; });
  if (!slow.empty() && *slow.front()->mean_train_seconds > 0) {
    text += "  slowest, by the mean of their tasks:\n";
    for (size_t i = 0; i < std::min(kClientsShown, slow.size()); ++i)
      text += fmt::format("    {:<30} {}\n", OneLine(slow[i]->client_id), SecondsText(*slow[i]->mean_train_seconds));
  }
  if (!page.failures.empty()) {
    text += "  with most failed tasks:\n";
    for (size_t i = 0; i < std::min(kClientsShown, page.failures.size()); ++i) {
      const ClientFailuresRow& client = page.failures[i];
      const auto row = std::ranges::find(page.clients, client.client_id, &ClientReliabilityRow::client_id);
      text += fmt::format("    {:<30} {} of {} tasks\n", OneLine(client.client_id), client.tasks,
                          row == page.clients.end() ? client.tasks : row->tasks);
      std::string last = fmt::format("round {} {}", client.last_round, OneLine(client.status));
      if (!client.error.empty()) last += ": " + OneLine(client.error);
      // Most fail alike, so only the first reason is complete.
      if (i > 0 && last.size() > kReasonColumns) last = last.substr(0, last.rfind(' ', kReasonColumns - 2)) + " …";
      text += Wrapped(last, kReasonColumns, "      ");
    }
    const int64_t more = page.failing - static_cast<int64_t>(kClientsShown);
    if (more > 0) text += fmt::format("    and {} more\n", more);
  }
  return text;
}

std::string TimeText(const RunOverview& page) {
  const TimeSplit& time = page.time;
  if (time.total <= 0 || page.attempts.empty()) return "";
  std::string text = HeadText("Where the time went");
  const auto line = [&](const char* what, double seconds) {
    const auto marks = static_cast<size_t>(seconds / time.total * 20 + 0.5);
    std::string row =
        fmt::format("  {:<28} {:>11} {:>6} ", what, SecondsText(seconds), PercentText(seconds / time.total));
    for (size_t mark = 0; mark < std::min<size_t>(marks, 20) / 2; ++mark) row += "█";
    if (marks % 2 == 1) row += "▌";
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  };
  line("clients at work", time.training);
  line("aggregation", time.aggregating);
  line("evaluation", time.evaluating);
  line("waiting, writing, the rest", time.rest);
  std::string task;
  const auto part = [&](const std::optional<double>& seconds, const char* what) {
    if (seconds) task += fmt::format("{}{} {}", task.empty() ? "" : ", ", what, SecondsText(*seconds));
  };
  part(time.task_waiting, "waits");
  part(time.task_training, "trains");
  part(time.task_uploading, "uploads");
  if (!task.empty()) text += fmt::format("  a task, on average: {}\n", task);
  if (page.bytes_down + page.bytes_up > 0)
    text += fmt::format("  sent: {} to clients, {} from them\n", BytesText(page.bytes_down), BytesText(page.bytes_up));
  return text;
}

std::string KeysText(const RunOverview& page) {
  if (page.keys.empty() && page.run.foreign()) return "";
  std::string text = HeadText(page.run.foreign() ? "Its configuration" : "What differs from the defaults");
  size_t width = 0;
  for (const auto& [key, value] : page.keys) width = std::max(width, key.size());
  for (const auto& [written, value] : page.keys) {
    const std::string key = OneLine(written);
    // A path is recognised by its end.
    std::string shown = OneLine(value);
    const size_t room = kPage - std::min(kPage - 12, width + 4);
    if (shown.size() > room && shown.starts_with("\"/")) shown = "\"…" + shown.substr(shown.size() - room + 2);
    text += fmt::format("  {:<{}}  {}\n", key, width, shown);
  }
  return text;
}

std::string SaidText(const RunOverview& page) {
  std::string text;
  if (!page.tags.empty()) {
    std::vector<std::string> tags;
    for (const TagRow& tag : page.tags) tags.push_back(OneLine(tag.tag));
    text += fmt::format("tags: {}\n", Join(tags, ", "));
  }
  for (const NoteRow& note : page.notes)
    text += Wrapped(fmt::format("{}: {}", When(note.at), OneLine(note.text)), kPage, "");
  return text;
}

std::string PrivacyText(const RunOverview& page) {
  const std::vector<std::string> sentences = PrivacySentences(page);
  if (sentences.empty()) return "";
  std::string text = HeadText("Privacy");
  for (const std::string& sentence : sentences) text += Wrapped(sentence, kPage - 2, "  ");
  return text;
}

std::string ModelText(const RunOverview& page, const std::string& folder) {
  const ModelRow* model = page.newest_model();
  if (model == nullptr) return "";
  return HeadText("Model") + fmt::format("  {}\n  of round {}: {} parameters, {}\n",
                                         OneLine(JoinPath(folder, model->path)), model->round, model->parameters,
                                         BytesText(model->bytes));
}

void PrintPage(const RunOverview& page, const std::string& folder) {
  fmt::print("{}\n{}", Emphasised(Emphasis::kHeading, OneLine(page.run.run_id)), StatusLine(page));
  const std::string began = When(page.run.started_at.empty() ? page.run.created_at : page.run.started_at);
  if (page.run.foreign()) {
    fmt::print("began {} UTC, not by Rivulet: from {}\n", began, OneLine(page.run.version));
  } else {
    fmt::print("began {} UTC, seed {}, rivulet {}\n", began, page.run.seed, OneLine(page.run.version));
  }
  if (!page.first_reason.empty()) fmt::print("{}", Wrapped(OneLine(page.first_reason), kPage, ""));
  if ((page.run.status == "interrupted" || page.run.status == "failed") && !page.run.foreign())
    fmt::print("to resume: --resume {}\n", OneLine(page.run.run_id));
  const int64_t lost = static_cast<int64_t>(page.attempts.size()) - page.committed();
  if (lost > 0) fmt::print("{} of {} attempts at a round were abandoned\n", lost, page.attempts.size());
  fmt::print("{}{}{}", SaidText(page), CurvesText(page), PrivacyText(page));
  fmt::print("{}{}{}{}", ClientsText(page), TimeText(page), KeysText(page), ModelText(page, folder));
}

void PrintJson(const RunOverview& page, const RunSummaryRow& summary) {
  Json json = Json::Object();
  const auto put = [](Json& object, const std::string& name, const SqlShown& value) {
    std::visit(
        [&](const auto& v) {
          if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::monostate>) {
            object[name] = nullptr;
          } else {
            object[name] = v;
          }
        },
        value);
  };
  for (auto& [name, value] : Shown(page.run))
    if (name != "config") put(json, name, value);
  json["seed"] = page.run.seed;
  for (auto& [name, value] : Shown(summary))
    if (!json.Contains(name)) put(json, name, value);
  // The newest version with clients' measures, and their distribution.
  for (const Curve& curve : page.curves) {
    if (!curve.name.starts_with("evaluate/") && !curve.name.starts_with("personal/")) continue;
    json["measured_round"] = curve.points.back().first;
    json[curve.name] = curve.points.back().second;
    for (const auto& [figure, value] : curve.spread) json[fmt::format("{}/{}", curve.name, figure)] = value;
  }
  if (!page.models.empty()) {
    const ModelRow& model = page.models.back();
    json["model_digest"] = model.digest;
    put(json, "path", TextCell(model.path));
    json["bytes"] = model.bytes;
    json["parameters"] = model.parameters;
  }
  std::vector<std::string> tags, notes;
  for (const TagRow& tag : page.tags) tags.push_back(OneLine(tag.tag));
  for (const NoteRow& note : page.notes) notes.push_back(note.at + " " + OneLine(note.text));
  put(json, "tags", TextCell(Join(tags, ", ")));
  put(json, "notes", TextCell(Join(notes, "\n")));
  json["bytes_down"] = page.bytes_down;
  json["bytes_up"] = page.bytes_up;
  json["time"] = {{"total_seconds", page.time.total},
                  {"train_seconds", page.time.training},
                  {"aggregate_seconds", page.time.aggregating},
                  {"evaluate_seconds", page.time.evaluating},
                  {"rest_seconds", page.time.rest}};
  for (const Curve& curve : page.curves)
    if (curve.name.starts_with(kPrivacyCurves)) json[curve.name] = curve.points.back().second;
  if (page.virtual_seconds) json["virtual_seconds"] = *page.virtual_seconds;
  if (page.lanes > 0) json["lanes"] = page.lanes;
  if (page.tf32) json["tf32"] = true;
  json["failing"] = page.failing;
  Json& failing = json["failing_clients"] = Json::Array();
  for (const ClientFailuresRow& client : page.failures)
    failing.Append({{"client_id", client.client_id},
                    {"tasks", client.tasks},
                    {"round", client.last_round},
                    {"status", client.status},
                    {"error", client.error}});
  Json& keys = json["not_default"] = Json::Object();
  for (const auto& [key, value] : page.keys) put(keys, key, CellOfToml(value));
  json["config"] = page.run.config;
  fmt::print("{}\n", json.Dump());
}

Status ShowRun(const ShowOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const auto history, OpenToRead(options.history));
  if (options.config) {
    RIVULET_ASSIGN_OR_RETURN(const RunRow run, history->ResolveRun(options.run));
    // A scenario has no characters that are escaped; a foreign history may.
    fmt::print("{}{}", DisplayLines(run.config), run.config.ends_with('\n') ? "" : "\n");
    return absl::OkStatus();
  }
  RIVULET_ASSIGN_OR_RETURN(const RunOverview page, LoadOverview(*history, options.run));
  if (!options.history.json) {
    PrintPage(page, FolderOf(history->real_path()));
    return absl::OkStatus();
  }
  RIVULET_ASSIGN_OR_RETURN(const auto summaries, history->RunSummaries());
  const auto summary = std::ranges::find(summaries, page.run.run_id, &RunSummaryRow::run_id);
  PrintJson(page, summary == summaries.end() ? RunSummaryRow() : *summary);
  return absl::OkStatus();
}

}  // namespace

Command RunsShowCommand() {
  auto options = std::make_shared<ShowOptions>();
  Command command{.name = "show",
                  .summary = "Summarise one run: results, failed clients, time and configuration.",
                  .example =
                      "rivulet runs show latest\n"
                      "  rivulet runs show latest --config > again.toml"};
  command.Positional("RUN", &options->run, kRunHelp);
  AddHistoryOptions(command, &options->history);
  command.Flag("--config", &options->config, "print only the whole configuration, as a scenario");
  command.run = [options] { return ShowRun(*options); };
  return command;
}

}  // namespace rivulet
