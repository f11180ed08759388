// rivulet runs export: all rows of a run as files for other tools.
#include <algorithm>
#include <map>
#include <utility>

#include "cli/long_work.h"
#include "cli/runs/commands.h"
#include "cli/terminal.h"
#include "coordinator/history/questions.h"
#include "coordinator/stored_run.h"
#include "engine/base/file_system.h"
#include "engine/base/join.h"
#include "engine/data/event_file.h"
#include "engine/io/atomic_file.h"
#include "engine/io/new_folder.h"
#include "inspect/csv.h"
#include "inspect/listed_runs.h"
#include "inspect/run_proof.h"
#include "inspect/run_status.h"
#include "inspect/tensorboard.h"

namespace rivulet {
namespace {

struct ExportRunOptions {
  HistoryOptions history;
  std::vector<std::string> runs;
  std::string csv, json_file, tensorboard, proof;
};

constexpr char kTasksOfRound[] = "SELECT * FROM client_rounds WHERE run_id = ?1 AND round = ?2";
// A task's loss is a metric of the version that contains it, which is no index for tasks. So these rows are
// exported with the round in which the task was given out. A query by their own round would scan all tasks for each
// round.
constexpr char kMetricsOfRound[] =
    "SELECT * FROM metrics WHERE run_id = ?1 AND round = ?2 AND NOT (scope = 'client' AND name = 'train/loss')\n"
    "UNION ALL SELECT run_id, committed_round, 'client', client_id, 'train/loss', train_loss, NULL, NULL\n"
    "FROM client_rounds WHERE run_id = ?1 AND round = ?2 AND committed_round IS NOT NULL AND train_loss IS NOT NULL";

// The views with a run's rows. Those with many rows a round are read by rounds, however long the run was.
struct ExportedView {
  const char* name;
  const char* of_round = nullptr;
};
constexpr ExportedView kExportedViews[] = {{"runs"},
                                           {"run_keys"},
                                           {"tags"},
                                           {"notes"},
                                           {"rounds"},
                                           {"client_rounds", kTasksOfRound},
                                           {"metrics", kMetricsOfRound},
                                           {"models"},
                                           {"records"},
                                           {"events"},
                                           {"client_reliability"}};

// Calls `part` with successive results of the same columns; at least once. `tell` receives rounds.
Status ForEachPart(History& history, const ExportedView& view, const std::string& run_id, const DataProgress& tell,
                   const std::function<Status(const SqlAnswer&)>& part) {
  if (view.of_round == nullptr) {
    RIVULET_ASSIGN_OR_RETURN(const SqlAnswer answer,
                             history.Ask(fmt::format("SELECT * FROM {} WHERE run_id = ?", view.name), {run_id}));
    return part(answer);
  }
  RIVULET_ASSIGN_OR_RETURN(const SqlAnswer last, history.Ask("SELECT coalesce(max(round), 0) FROM rounds "
                                                             "WHERE run_id = ?",
                                                             {run_id}));
  const auto* rounds = std::get_if<int64_t>(&last.rows.at(0).at(0));
  for (int64_t round = 0; rounds != nullptr && round <= *rounds; ++round) {
    RIVULET_ASSIGN_OR_RETURN(const SqlAnswer answer, history.Ask(view.of_round, {run_id, round}));
    RIVULET_RETURN_IF_ERROR(part(answer));
    RIVULET_RETURN_IF_ERROR(tell(round, *rounds));
  }
  return absl::OkStatus();
}

Status ExportCsv(History& history, const std::string& run_id, const std::string& folder) {
  FileSystem& fs = FileSystem::Default();
  RIVULET_ASSIGN_OR_RETURN(const auto made, NewFolder::Create(fs, folder));  // outlives the files in it
  std::vector<std::unique_ptr<AtomicFile>> files;
  for (const ExportedView& view : kExportedViews) {
    RIVULET_ASSIGN_OR_RETURN(auto file, AtomicFile::Create(fs, JoinPath(folder, fmt::format("{}.csv", view.name))));
    bool titled = false;
    LongWork work(fmt::format("writing {}", view.name));
    RIVULET_RETURN_IF_ERROR(ForEachPart(history, view, run_id, work.progress(), [&](const SqlAnswer& answer) -> Status {
      std::string text = titled ? "" : CsvLine(answer.columns);
      titled = true;
      for (const auto& row : answer.rows) {
        std::vector<std::string> fields;
        for (const SqlShown& value : row) fields.push_back(CsvField(value));
        text += CsvLine(fields);
      }
      return file->Append(text);
    }));
    RIVULET_RETURN_IF_ERROR(file->Finish());
    files.push_back(std::move(file));
  }
  for (const auto& file : files) RIVULET_RETURN_IF_ERROR(file->Commit());
  return absl::OkStatus();
}

Status ExportJson(History& history, const std::string& run_id, const std::string& path) {
  RIVULET_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(FileSystem::Default(), path));
  bool first_view = true;
  for (const ExportedView& view : kExportedViews) {
    RIVULET_RETURN_IF_ERROR(file->Append(fmt::format("{}\"{}\": [", first_view ? "{" : ",\n", view.name)));
    first_view = false;
    bool first_row = true;
    LongWork work(fmt::format("writing {}", view.name));
    RIVULET_RETURN_IF_ERROR(ForEachPart(history, view, run_id, work.progress(), [&](const SqlAnswer& answer) -> Status {
      std::string text;
      for (const auto& row : answer.rows) {
        Fields fields;
        for (size_t column = 0; column < row.size(); ++column) fields.emplace_back(answer.columns[column], row[column]);
        text += fmt::format("{}\n{}", first_row ? "" : ",", JsonObject(fields));
        first_row = false;
      }
      return file->Append(text);
    }));
    RIVULET_RETURN_IF_ERROR(file->Append(first_row ? std::string_view("]") : std::string_view("\n]")));
  }
  RIVULET_RETURN_IF_ERROR(file->Append(std::string_view("}\n")));
  return file->Commit();
}

double SecondsOfText(const std::string& iso8601) {
  const StatusOr<int64_t> at = UnixMs(iso8601);
  return at.ok() ? static_cast<double>(*at) / 1000 : 0;
}

// A step per round, and one before the first with the run's settings. TensorBoard shows a folder as a run.
Status ExportTensorBoard(History& history, const RunRow& run, const std::string& folder) {
  constexpr size_t kPictures = 12;
  std::map<int64_t, const RoundRow*> rounds;
  RIVULET_ASSIGN_OR_RETURN(const auto attempts, history.Rounds(run.run_id));
  for (const RoundRow& round : attempts)
    if (round.status == "committed") rounds[round.round] = &round;
  std::map<int64_t, std::vector<std::pair<std::string, double>>> measured;
  for (const char* scope : {"central", "federated"}) {
    RIVULET_ASSIGN_OR_RETURN(const auto metrics, history.Metrics(run.run_id, scope));
    for (const MetricRow& metric : metrics)
      if (metric.value && metric.name != "train/loss") measured[metric.round].emplace_back(metric.name, *metric.value);
  }
  RIVULET_ASSIGN_OR_RETURN(const auto client_metrics, ClientMetricNames(history, run.run_id));
  RIVULET_ASSIGN_OR_RETURN(const auto models, ModelSummaries::Open(history, run, kPictures));
  if (!models->why_no_pictures().empty())
    PrintNote(fmt::format("no confusion matrices are drawn: {}", models->why_no_pictures()), Note::kProgress);
  SummaryEvent start{.wall_time = SecondsOfText(run.started_at), .scalars = {}};
  RIVULET_ASSIGN_OR_RETURN(start.hyperparameters, HyperParametersOf(history, run.run_id));
  start.graph_def = models->graph_def();
  // Round 0, if its model is stored, is part of the first step.
  RIVULET_RETURN_IF_ERROR(models->AddTo(start));
  LongWork work("writing rounds");
  const DataProgress tell = work.progress();
  auto round = rounds.begin();
  bool started = false, ended = false;
  int64_t done = 0;
  const auto next = [&]() -> StatusOr<std::optional<SummaryEvent>> {
    if (!std::exchange(started, true)) return std::move(start);
    if (round == rounds.end()) {
      if (std::exchange(ended, true)) return std::nullopt;
      SummaryEvent end{.step = rounds.empty() ? 0 : rounds.rbegin()->first,
                       .wall_time = SecondsOfText(run.finished_at),
                       .scalars = {}};
      end.end = SummaryEndOf(StatusNow(history.real_path(), run.run_id, run.status));
      return end;
    }
    RIVULET_RETURN_IF_ERROR(tell(++done, static_cast<int64_t>(rounds.size())));
    SummaryEvent event = SummaryOf(*round->second);
    event.wall_time = SecondsOfText(round->second->finished_at);
    for (auto& scalar : measured[event.step]) event.scalars.push_back(std::move(scalar));
    RIVULET_RETURN_IF_ERROR(AddClientsTo(event, history, run.run_id, round->second->attempt, client_metrics));
    RIVULET_RETURN_IF_ERROR(models->AddTo(event));
    ++round;
    return event;
  };
  RIVULET_ASSIGN_OR_RETURN(const std::string path,
                           WriteSummaryEvents(FileSystem::Default(), JoinPath(folder, run.run_id), next));
  fmt::print("run {}: {} rounds in {}; open with tensorboard --logdir {}\n", run.run_id, rounds.size(), path, folder);
  return absl::OkStatus();
}

Status ExportRun(const ExportRunOptions& options) {
  if (options.csv.empty() && options.json_file.empty() && options.tensorboard.empty() && options.proof.empty())
    return UsageError(
        "'rivulet runs export' needs --csv DIR, --json FILE, --tensorboard DIR or --proof DIR; see 'rivulet runs "
        "export "
        "--help'");
  RIVULET_ASSIGN_OR_RETURN(const auto history, OpenToRead(options.history));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<ListedRun> meant, RunsMeant(*history, options.runs));
  if (meant.size() > 1 && !options.json_file.empty())
    return UsageError("--json writes one run, and {} were named; use --csv DIR, which gets a folder for each run",
                      meant.size());
  for (const ListedRun& listed : meant) {
    RIVULET_ASSIGN_OR_RETURN(const RunRow run, history->ResolveRun(listed.row.run_id));
    if (!options.csv.empty()) {
      const std::string folder = meant.size() > 1 ? JoinPath(options.csv, run.run_id) : options.csv;
      RIVULET_RETURN_IF_ERROR(ExportCsv(*history, run.run_id, folder));
      fmt::print("run {}: {} tables in {}\n", run.run_id, std::size(kExportedViews), folder);
    }
    if (!options.json_file.empty()) {
      RIVULET_RETURN_IF_ERROR(ExportJson(*history, run.run_id, options.json_file));
      fmt::print("run {}: {}\n", run.run_id, options.json_file);
    }
    if (!options.proof.empty()) {
      const std::string folder = meant.size() > 1 ? JoinPath(options.proof, run.run_id) : options.proof;
      RIVULET_RETURN_IF_ERROR(CheckOurs(run));
      RIVULET_ASSIGN_OR_RETURN(const WrittenProof written, WriteProof(options.history.db, run.run_id, folder));
      fmt::print("run {}: {} records and {} model{} in {}; head {}\n", run.run_id, written.records, written.models,
                 written.models == 1 ? "" : "s", folder, written.head);
    }
    if (!options.tensorboard.empty()) RIVULET_RETURN_IF_ERROR(ExportTensorBoard(*history, run, options.tensorboard));
  }
  return absl::OkStatus();
}

}  // namespace

Command RunsExportCommand() {
  auto options = std::make_shared<ExportRunOptions>();
  Command command{
      .name = "export",
      .summary = "Write all rows of runs as files for other tools, under the names of docs/reference/history.md.",
      .example =
          "rivulet runs export latest --csv run\n"
          "  rivulet runs export latest --json run.json\n"
          "  rivulet runs export tag=baseline --csv baseline\n"
          "  rivulet runs export latest --tensorboard events\n"
          "  rivulet runs export latest --proof proof"};
  command.Positional("RUN", &options->runs, kRunsHelp)
      .Option("--csv", "DIR", &options->csv,
              "write one CSV file a table, such as DIR/rounds.csv, or DIR/RUN_ID/rounds.csv of several runs; the "
              "folder is created")
      .Option("--json", "FILE", &options->json_file, "write one JSON object with an array a table")
      .Option("--proof", "DIR", &options->proof,
              "write the records of its versions, its plan and the models that it keeps, for 'rivulet-client verify'; "
              "the folder is created")
      .Option("--tensorboard", "DIR", &options->tensorboard,
              "write TensorBoard events to DIR/RUN_ID: metrics, histograms, confusion matrices, the graph and the "
              "hyperparameters");
  AddHistoryOptions(command, &options->history, false);
  command.run = [options] { return ExportRun(*options); };
  return command;
}

}  // namespace rivulet
