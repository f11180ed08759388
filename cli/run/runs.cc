// rivulet runs: what the history of a database says, as tables or JSON, and what people say of its runs.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "cli/command.h"
#include "cli/table.h"
#include "coordinator/history/history.h"
#include "engine/base/clock.h"

namespace rivulet {
namespace {

struct RunsOptions {
  std::string run;
  std::string text;  // a tag or a note
  std::string db = "./rivulet.sqlite";
  bool json = false;
};

Status Print(const Table& table, const RunsOptions& options, std::string_view when_empty) {
  if (options.json) {
    fmt::print("{}", table.Json());
  } else if (table.size() == 0) {
    fmt::print("{}\n", when_empty);
  } else {
    fmt::print("{}", table.Text());
  }
  return absl::OkStatus();
}

// A row's cells, under the names of its columns.
template <typename Row>
std::vector<Cell> Cells(const Row& row) {
  std::vector<Cell> cells;
  for (auto& [name, value] : Shown(row)) cells.push_back(std::move(value));
  return cells;
}

// All columns of a row in the order of its table, each printed as `how` says, or as it is.
template <typename Row>
std::vector<Column> ColumnsOf(const std::vector<Column>& how) {
  std::vector<Column> columns;
  ForEachColumn<Row>([&](const auto& column) {
    const auto found = std::find_if(how.begin(), how.end(), [&](const Column& c) { return c.name == column.name; });
    columns.push_back(found != how.end() ? *found : Column{column.name});
  });
  return columns;
}

Status List(const RunsOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(options.db, History::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(const auto runs, history->RunSummaries());
  Table table(ColumnsOf<RunSummaryRow>({{"seed", true}, {"last_round", true}, {"seconds", false, 1}}));
  for (const RunSummaryRow& run : runs) table.Add(Cells(run));
  return Print(table, options, "no runs yet");
}

Status Show(const RunsOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(options.db, History::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(const RunRow run, history->ResolveRun(options.run));
  RIVULET_ASSIGN_OR_RETURN(const auto runs, history->RunSummaries());
  RIVULET_ASSIGN_OR_RETURN(const auto models, history->Models(run.run_id));
  RIVULET_ASSIGN_OR_RETURN(const auto federated, history->Metrics(run.run_id, "federated"));
  RIVULET_ASSIGN_OR_RETURN(const auto tags, history->Tags(run.run_id));
  RIVULET_ASSIGN_OR_RETURN(const auto notes, history->Notes(run.run_id));
  Fields fields = {{"run_id", run.run_id},
                   {"name", run.name},
                   {"status", run.status},
                   {"reason", TextCell(run.reason)},
                   {"seed", static_cast<int64_t>(run.seed)},
                   {"version", run.version},
                   {"created_at", run.created_at},
                   {"started_at", TextCell(run.started_at)},
                   {"finished_at", TextCell(run.finished_at)},
                   {"plan_digest", run.plan_digest}};
  for (const RunSummaryRow& summary : runs) {
    if (summary.run_id != run.run_id) continue;
    fields.insert(fields.end(), {{"rounds", summary.rounds},
                                 {"best_accuracy", CellOrNull(summary.best_accuracy)},
                                 {"best_round", CellOrNull(summary.best_round)},
                                 {"last_accuracy", CellOrNull(summary.last_accuracy)},
                                 {"last_round", CellOrNull(summary.last_round)},
                                 {"seconds", summary.seconds}});
  }
  int64_t measured = 0;
  for (const MetricRow& metric : federated) {
    if (metric.name.starts_with("evaluate/")) measured = std::max(measured, metric.round);
  }
  if (measured > 0) fields.emplace_back("measured_round", measured);
  for (const MetricRow& metric : federated) {
    if (measured > 0 && metric.round == measured && metric.name.starts_with("evaluate/"))
      fields.emplace_back(metric.name, CellOrNull(metric.value));
  }
  if (!models.empty()) {
    fields.insert(fields.end(), {{"model_digest", models.back().digest},
                                 {"path", TextCell(models.back().path)},
                                 {"bytes", models.back().bytes},
                                 {"parameters", models.back().parameters}});
  }
  std::vector<std::string> words;
  for (const TagRow& tag : tags) words.push_back(tag.tag);
  fields.emplace_back("tags", TextCell(fmt::format("{}", fmt::join(words, ", "))));
  std::vector<std::string> said;
  for (const NoteRow& note : notes) said.push_back(fmt::format("{} {}", note.at, OneLine(note.text)));
  fields.emplace_back("notes", TextCell(fmt::format("{}", fmt::join(said, options.json ? "\n" : "; "))));
  if (options.json) {
    fields.emplace_back("config", run.config);
    fmt::print("{}\n", JsonObject(fields));
    return absl::OkStatus();
  }
  fmt::print("{}\n{}", FieldLines(fields), run.config);
  if (!run.config.empty() && run.config.back() != '\n') fmt::print("\n");
  return absl::OkStatus();
}

Status Rounds(const RunsOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(options.db, History::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(const RunRow run, history->ResolveRun(options.run));
  RIVULET_ASSIGN_OR_RETURN(const auto rounds, history->Rounds(run.run_id));
  RIVULET_ASSIGN_OR_RETURN(const auto summaries, history->RoundSummaries(run.run_id));
  std::map<int64_t, const RoundSummaryRow*> evaluated;
  for (const RoundSummaryRow& summary : summaries) evaluated[summary.round] = &summary;
  std::vector<Column> columns = ColumnsOf<RoundRow>({{"run_id", true},
                                                     {"reason", false, 4, 40},
                                                     {"started_at", true},
                                                     {"finished_at", true},
                                                     {"folded", true},
                                                     {"refused", true},
                                                     {"bytes_down", true},
                                                     {"bytes_up", true},
                                                     {"train_seconds", false, 2},
                                                     {"aggregate_seconds", true},
                                                     {"evaluate_seconds", true},
                                                     {"model_digest", false, 4, 13}});
  // What the committed model was worth stands beside its training's loss.
  const auto after =
      std::find_if(columns.begin(), columns.end(), [](const Column& c) { return c.name == "bytes_down"; });
  const auto at = after - columns.begin();
  columns.insert(after, {{"test_accuracy"}, {"test_loss"}});
  Table table(std::move(columns));
  for (const RoundRow& round : rounds) {
    const auto found = evaluated.find(round.round);
    const bool committed = round.status == "committed" && found != evaluated.end();
    std::vector<Cell> cells = Cells(round);
    cells.insert(cells.begin() + at, {committed ? CellOrNull(found->second->test_accuracy) : Cell(),
                                      committed ? CellOrNull(found->second->test_loss) : Cell()});
    table.Add(std::move(cells));
  }
  return Print(table, options, "no rounds yet");
}

Status Clients(const RunsOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(options.db, History::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(const RunRow run, history->ResolveRun(options.run));
  RIVULET_ASSIGN_OR_RETURN(const auto clients, history->ClientReliability(run.run_id));
  Table table(ColumnsOf<ClientReliabilityRow>({{"run_id", true}, {"mean_train_seconds", false, 3}}));
  for (const ClientReliabilityRow& client : clients) table.Add(Cells(client));
  return Print(table, options, "no client has had a task yet");
}

// Beside a run that may be going on: SQLite lets several processes write one file in turn. Asked for by reading first,
// since opening to write would make the file of a mistyped name.
StatusOr<std::pair<std::unique_ptr<History>, std::string>> OpenToWrite(const RunsOptions& options) {
  if (OneLine(options.text) != options.text || options.text.find_first_not_of(' ') == options.text.npos) {
    return UsageError("'{}' is no line of text", Shortened(OneLine(options.text)));
  }
  std::string run_id;
  {
    RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(options.db, History::Access::kReadOnly));
    RIVULET_ASSIGN_OR_RETURN(const RunRow run, history->ResolveRun(options.run));
    run_id = run.run_id;
  }
  RIVULET_ASSIGN_OR_RETURN(auto history, History::Open(options.db, History::Access::kReadWrite));
  return std::pair(std::move(history), std::move(run_id));
}

Status Tag(const RunsOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const auto opened, OpenToWrite(options));
  return opened.first->AddTag(opened.second, options.text);
}

Status Note(const RunsOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const auto opened, OpenToWrite(options));
  return opened.first->AddNote(opened.second, Iso8601(Clock::System().UnixMs()), options.text);
}

Command Saying(std::string name, std::string summary, std::string example, std::string value_name, std::string help,
               Status (*run)(const RunsOptions&)) {
  auto options = std::make_shared<RunsOptions>();
  Command command{.name = std::move(name), .summary = std::move(summary), .example = std::move(example)};
  command.Positional("RUN", &options->run, "a run's id or name, or 'latest'")
      .Positional(std::move(value_name), &options->text, std::move(help))
      .Option("--db", "FILE", &options->db, "the history [./rivulet.sqlite]");
  command.run = [options, run] { return run(*options); };
  return command;
}

Command Subcommand(std::string name, std::string summary, std::string example, bool of_a_run,
                   Status (*run)(const RunsOptions&)) {
  auto options = std::make_shared<RunsOptions>();
  Command command{.name = std::move(name), .summary = std::move(summary), .example = std::move(example)};
  if (of_a_run) command.Positional("RUN", &options->run, "a run's id or name, or 'latest'");
  command.Option("--db", "FILE", &options->db, "the history [./rivulet.sqlite]")
      .Flag("--json", &options->json, "print JSON; keys are the column names of docs/history.md");
  command.run = [options, run] { return run(*options); };
  return command;
}

const RegisterCommand kRuns(40, [] {
  Command command{.name = "runs",
                  .summary = "Look into the history of runs.",
                  .example = "rivulet runs rounds latest --db ./rivulet.sqlite"};
  command.subcommands = {
      Subcommand("list", "The runs, newest first.", "rivulet runs list", false, List),
      Subcommand("show", "One run: how it went and how it was configured.", "rivulet runs show latest", true, Show),
      Subcommand("rounds", "A run's rounds, every attempt.", "rivulet runs rounds latest --json", true, Rounds),
      Subcommand("clients", "A run's clients: how often they were asked and came through.",
                 "rivulet runs clients latest", true, Clients),
      Saying("tag", "Give a run a tag, by which queries find it.", "rivulet runs tag latest baseline", "TAG",
             "one line of text", Tag),
      Saying("note", "Write a note about a run.", "rivulet runs note latest 'with the old labels'", "TEXT",
             "one line of text", Note),
  };
  return command;
});

}  // namespace
}  // namespace rivulet
