// rivulet runs list: the runs of a history, filtered and sorted, with their distinguishing keys.
#include <algorithm>
#include <map>

#include "cli/runs/commands.h"
#include "engine/base/join.h"
#include "engine/base/quantities.h"
#include "inspect/listed_runs.h"
#include "inspect/overview.h"

namespace rivulet {
namespace {

struct ListOptions {
  HistoryOptions history;
  std::vector<std::string> where;  // KEY=VALUE
  std::string sort = "created_at";
  std::optional<int64_t> limit;
  bool wide = false;
};

// Figures of quality and cost sort descending, settings ascending; runs without the value come last.
Status Sort(std::vector<ListedRun>& runs, const std::string& name) {
  RIVULET_RETURN_IF_ERROR(CheckListName(runs, name, "--sort"));
  const bool falls = name.ends_with("accuracy") || name.ends_with("/r2") || name == "created_at" || name == "rounds" ||
                     name == "seconds";
  const auto rank = [](const Cell& cell) -> std::pair<double, std::string> {
    if (const auto* integer = std::get_if<int64_t>(&cell)) return {static_cast<double>(*integer), ""};
    if (const auto* real = std::get_if<double>(&cell)) return {*real, ""};
    if (const auto* text = std::get_if<std::string>(&cell)) return {0, *text};
    if (const auto* truth = std::get_if<bool>(&cell)) return {*truth ? 1 : 0, ""};
    return {0, ""};
  };
  std::ranges::stable_sort(runs, [&](const ListedRun& a, const ListedRun& b) {
    const Cell one = ValueUnder(a, name), other = ValueUnder(b, name);
    const bool has_one = one != Cell(), has_other = other != Cell();
    if (has_one != has_other) return has_one;
    return falls ? rank(one) > rank(other) : rank(one) < rank(other);
  });
  return absl::OkStatus();
}

Status ListRuns(const ListOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const auto history, OpenToRead(options.history));
  RIVULET_ASSIGN_OR_RETURN(std::vector<ListedRun> runs, LoadListedRuns(*history));
  const bool any = !runs.empty();
  RIVULET_RETURN_IF_ERROR(KeepWhere(runs, options.where));
  RIVULET_RETURN_IF_ERROR(Sort(runs, options.sort));
  if (options.limit && static_cast<size_t>(*options.limit) < runs.size())
    runs.resize(static_cast<size_t>(*options.limit));

  const bool tagged = std::ranges::any_of(runs, [](const ListedRun& run) { return !run.tags.empty(); });

  if (options.history.json) {
    std::vector<std::map<std::string, std::string>> keys;
    for (const ListedRun& run : runs) keys.push_back(run.keys);
    std::set<std::string> differing = DifferingKeys(keys);
    differing.erase("run.name");  // it has a separate column
    std::vector<Column> columns = ColumnsOf<RunSummaryRow>({});
    columns.push_back({"tags"});
    for (const std::string& key : differing) columns.push_back({key});
    Table table(std::move(columns));
    for (const ListedRun& run : runs) {
      std::vector<Cell> cells = CellsOf(run.row);
      cells.push_back(TextCell(Join(run.tags, ", ")));
      for (const std::string& key : differing) cells.push_back(ValueUnder(run, key));
      table.Add(std::move(cells));
    }
    PrintRows(table, true, options.wide, "");
    return absl::OkStatus();
  }
  // The most important columns come first, and are dropped last on a narrow terminal.
  const std::vector<std::string> telling = TellingKeys(runs);
  const std::set<std::string> names(telling.begin(), telling.end());
  std::vector<Column> columns = {{.name = "run"},
                                 {.name = "status"},
                                 {.name = "algorithm", .rank = 1},
                                 {.name = "learning rate", .rank = 2},
                                 {.name = "seed", .rank = 3},
                                 {.name = "best", .rank = 1},
                                 {.name = "last", .rank = 5},
                                 {.name = "rounds", .rank = 4},
                                 {.name = "took", .rank = 6},
                                 {.name = "started (UTC)", .rank = 8},
                                 {.name = "tags", .only_json = !tagged, .width = 30, .rank = 7}};
  int rank = 9;
  for (const std::string& key : telling)
    columns.push_back({.name = ShortKey(key, names), .digits = 6, .width = 24, .rank = rank++});
  Table table(std::move(columns));
  for (const ListedRun& run : runs) {
    Cell best = CellOrNull(run.row.best_accuracy), last = CellOrNull(run.row.last_accuracy);
    if (!run.row.best_accuracy) {  // such as a run with numeric targets
      RIVULET_ASSIGN_OR_RETURN(const std::optional<Curve> curve, LoadFirstCurve(*history, run.row.run_id));
      if (curve) best = fmt::format("{} {}", MetricText(curve->best().second), curve->name);
      if (curve) last = MetricText(curve->points.back().second);
    }
    const Cell wanted = ValueUnder(run, "run.rounds");
    const auto* of = std::get_if<int64_t>(&wanted);
    std::string started = run.row.created_at.substr(0, 16);
    if (started.size() == 16) started[10] = ' ';
    std::vector<Cell> cells = {run.row.run_id,
                               run.row.status,
                               TextCell(KeyText(run, kAlgorithmKey)),
                               TextCell(KeyText(run, kLearningRateKey)),
                               static_cast<int64_t>(run.row.seed),
                               std::move(best),
                               std::move(last),
                               of != nullptr ? Cell(fmt::format("{}/{}", run.row.rounds, *of)) : Cell(run.row.rounds),
                               SecondsText(run.row.seconds),
                               std::move(started),
                               TextCell(Join(run.tags, ", "))};
    for (const std::string& key : telling) {
      const auto found = run.keys.find(key);
      Cell cell = found == run.keys.end() ? Cell() : CellOfToml(found->second);
      if (std::holds_alternative<double>(cell)) cell = found->second;  // numbers keep their original digits
      cells.push_back(std::move(cell));
    }
    table.Add(std::move(cells));
  }
  PrintRows(table, false, options.wide, any ? "no run matches" : "no runs yet");
  return absl::OkStatus();
}

}  // namespace

Command RunsListCommand() {
  auto options = std::make_shared<ListOptions>();
  Command command{
      .name = "list",
      .summary = "List the runs, newest first: algorithm, learning rate, seed, result, and the keys that differ.",
      .example =
          "rivulet runs list\n"
          "  rivulet runs list --where name=mnist --where status=finished --sort best_accuracy\n"
          "  rivulet runs list --where client.optimizer.learning_rate=0.1 --where tag=baseline"};
  AddWhere(command, &options->where);
  command
      .Option("--sort", "KEY", &options->sort,
              fmt::format("{}, or a key of the scenario [created_at, newest first]", Join(kListColumns, ", ")))
      .Option("--limit", "N", &options->limit, "largest number of runs");
  AddHistoryOptions(command, &options->history);
  command.Flag("--wide", &options->wide, "print all columns, even beyond the terminal's width");
  command.run = [options] { return ListRuns(*options); };
  return command;
}

}  // namespace rivulet
