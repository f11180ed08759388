// rivulet runs compare: differences between runs, and their results.
#include <algorithm>

#include "cli/runs/commands.h"
#include "cli/terminal.h"
#include "engine/base/join.h"
#include "engine/base/json.h"
#include "inspect/listed_runs.h"
#include "inspect/overview.h"
#include "inspect/sparkline.h"
#include "inspect/spread.h"

namespace rivulet {
namespace {

struct CompareOptions {
  HistoryOptions history;
  std::vector<std::string> runs;
};

struct ComparedRun {
  ListedRun run;
  std::string letter;  // A, B, … AA
  std::vector<Curve> curves;
};

std::string LetterOf(size_t place) {
  std::string letter;
  for (++place; place > 0; place = (place - 1) / 26)
    letter.insert(letter.begin(), static_cast<char>('A' + (place - 1) % 26));
  return letter;
}

// Groups of runs that are equal except for their seeds, of at least two, in order of their first.
std::vector<std::vector<const ComparedRun*>> SeedGroups(const std::vector<ComparedRun>& runs) {
  std::vector<std::map<std::string, std::string>> keys;
  for (const ComparedRun& run : runs) keys.push_back(run.run.keys);
  std::vector<std::vector<const ComparedRun*>> groups;
  for (const std::vector<size_t>& places : EqualButForSeed(keys)) {
    if (places.size() < 2) continue;
    std::vector<const ComparedRun*>& group = groups.emplace_back();
    for (const size_t place : places) group.push_back(&runs[place]);
  }
  return groups;
}

std::vector<std::string> MetricNames(const std::vector<ComparedRun>& runs) {
  std::vector<std::string> names;
  for (const ComparedRun& run : runs)
    for (const Curve& curve : run.curves)
      if (std::ranges::find(names, curve.name) == names.end()) names.push_back(curve.name);
  return names;
}

// The last and the best value of `name` over those of `group` that have it.
std::pair<Spread, Spread> GroupMetric(const std::vector<const ComparedRun*>& group, const std::string& name) {
  std::vector<double> last, best;
  for (const ComparedRun* run : group) {
    const Curve* curve = FindCurve(run->curves, name);
    if (curve == nullptr) continue;
    last.push_back(curve->points.back().second);
    best.push_back(curve->best().second);
  }
  return {SpreadOf(last), SpreadOf(best)};
}

void PrintComparison(const std::vector<ComparedRun>& runs, const std::set<std::string>& differing) {
  const auto head = [](std::string_view title) { fmt::print("\n{}\n", Emphasised(Emphasis::kHeading, title)); };
  for (const ComparedRun& run : runs) fmt::print("{}  {}  {}\n", run.letter, run.run.row.run_id, run.run.row.status);

  if (runs.size() == 1) fmt::print("There is no other run to compare it with.\n");
  if (runs.size() > 1) head("What differed");
  if (runs.size() > 1 && differing.empty()) fmt::print("  nothing: their configurations are the same\n");
  if (!differing.empty()) {
    std::vector<Column> columns = {{.name = "  key"}};
    for (const ComparedRun& run : runs) columns.push_back({.name = run.letter, .width = 24});
    Table table(std::move(columns));
    for (const std::string& key : differing) {
      std::vector<Cell> cells = {"  " + key};
      for (const ComparedRun& run : runs) {
        const auto value = run.run.keys.find(key);
        cells.push_back(value == run.run.keys.end() ? std::string("-") : value->second);
      }
      table.Add(std::move(cells));
    }
    fmt::print("{}", table.Text());
  }

  for (const std::string& name : MetricNames(runs)) {
    head(name);
    Table table(
        {{.name = "  run"}, {.name = "course", .rank = 1}, {.name = "last"}, {.name = "best"}, {.name = "round"}});
    for (const ComparedRun& run : runs) {
      const Curve* curve = FindCurve(run.curves, name);
      if (curve == nullptr) {
        table.Add({"  " + run.letter, std::string(), Cell(), Cell(), Cell()});
        continue;
      }
      std::vector<double> values;
      for (const auto& [round, value] : curve->points) values.push_back(value);
      table.Add({"  " + run.letter, Sparkline(values, 24), values.back(), curve->best().second, curve->best().first});
    }
    fmt::print("{}", table.Text(ResultColumns()));
  }

  for (const auto& group : SeedGroups(runs)) {
    std::vector<std::string> letters;
    for (const ComparedRun* run : group) letters.push_back(run->letter);
    head(fmt::format("{}: equal but for the seed", Join(letters, ", ")));
    Table table({{.name = "  metric"}, {.name = "last"}, {.name = "best"}});
    for (const std::string& name : MetricNames(runs)) {
      const auto [last, best] = GroupMetric(group, name);
      if (last.runs > 0) table.Add({"  " + name, last.Text(), best.Text()});
    }
    fmt::print("{}", table.Text());
  }
}

void PrintComparisonJson(const std::vector<ComparedRun>& runs, const std::set<std::string>& differing) {
  Json json = {{"runs", Json::Array()}, {"differing", Json::Object()}, {"equal_but_for_the_seed", Json::Array()}};
  for (const ComparedRun& run : runs) {
    Json metrics = Json::Object();
    for (const Curve& curve : run.curves)
      metrics[curve.name] = {{"last", curve.points.back().second},
                             {"last_round", curve.points.back().first},
                             {"best", curve.best().second},
                             {"best_round", curve.best().first}};
    json["runs"].Append({{"run_id", run.run.row.run_id},
                         {"name", run.run.row.name},
                         {"status", run.run.row.status},
                         {"metrics", std::move(metrics)}});
  }
  for (const std::string& key : differing) {
    Json values = Json::Array();
    for (const ComparedRun& run : runs) {
      const auto value = run.run.keys.find(key);
      values.Append(value == run.run.keys.end() ? Json() : Json(value->second));
    }
    json["differing"][key] = std::move(values);
  }
  for (const auto& group : SeedGroups(runs)) {
    Json members = Json::Array(), metrics = Json::Object();
    for (const ComparedRun* run : group) members.Append(run->run.row.run_id);
    for (const std::string& name : MetricNames(runs)) {
      const auto [last, best] = GroupMetric(group, name);
      if (last.runs > 0)
        metrics[name] = {{"runs", last.runs},
                         {"last_mean", last.mean},
                         {"last_deviation", last.deviation},
                         {"best_mean", best.mean},
                         {"best_deviation", best.deviation}};
    }
    json["equal_but_for_the_seed"].Append({{"runs", std::move(members)}, {"metrics", std::move(metrics)}});
  }
  fmt::print("{}\n", json.Dump());
}

Status CompareRuns(const CompareOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const auto history, OpenToRead(options.history));
  RIVULET_ASSIGN_OR_RETURN(std::vector<ListedRun> meant, RunsMeant(*history, options.runs));
  // A request for all runs of a name is answered even if there is only one.
  const bool named =
      std::ranges::none_of(options.runs, [](const std::string& word) { return word.find('=') != word.npos; });
  if (meant.size() < 2 && named)
    return UsageError("there is one run to compare; name at least two, or several by KEY=VALUE");
  std::vector<ComparedRun> runs;
  for (ListedRun& run : meant) {
    RIVULET_ASSIGN_OR_RETURN(std::vector<Curve> curves, LoadCurves(*history, run.row.run_id));
    runs.push_back({std::move(run), LetterOf(runs.size()), std::move(curves)});
  }
  std::vector<std::map<std::string, std::string>> keys;
  for (const ComparedRun& run : runs) keys.push_back(run.run.keys);
  const std::set<std::string> differing = DifferingKeys(keys);
  if (options.history.json) {
    PrintComparisonJson(runs, differing);
  } else {
    PrintComparison(runs, differing);
  }
  return absl::OkStatus();
}

}  // namespace

Command RunsCompareCommand() {
  auto options = std::make_shared<CompareOptions>();
  Command command{.name = "compare",
                  .summary = "Compare runs: differing keys, results, and the spread over seeds.",
                  .example =
                      "rivulet runs compare fedavg fedprox\n"
                      "  rivulet runs compare name=mnist tag=baseline"};
  command.Positional("RUN", &options->runs, kRunsHelp);
  AddHistoryOptions(command, &options->history);
  command.run = [options] { return CompareRuns(*options); };
  return command;
}

}  // namespace rivulet
