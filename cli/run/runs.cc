// rivulet runs: what the history of a database says, as tables or JSON.
#include <cstdio>
#include <map>
#include <memory>

#include "cli/command.h"
#include "cli/table.h"
#include "coordinator/history/history.h"

namespace rivulet {
namespace {

struct RunsOptions {
  std::string run;
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

Status List(const RunsOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(options.db, History::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(const auto runs, history->RunSummaries());
  Table table({{"run_id"},
               {"name"},
               {"status"},
               {"seed", true},
               {"rounds"},
               {"best_accuracy"},
               {"best_round"},
               {"last_accuracy"},
               {"last_round", true},
               {"seconds", false, 1},
               {"created_at"}});
  for (const RunSummaryRow& run : runs) {
    table.Add({run.run_id, run.name, run.status, static_cast<int64_t>(run.seed), run.rounds,
               CellOrNull(run.best_accuracy), CellOrNull(run.best_round), CellOrNull(run.last_accuracy),
               CellOrNull(run.last_round), run.seconds, run.created_at});
  }
  return Print(table, options, "no runs yet");
}

Status Show(const RunsOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(options.db, History::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(const RunRow run, history->ResolveRun(options.run));
  RIVULET_ASSIGN_OR_RETURN(const auto runs, history->RunSummaries());
  RIVULET_ASSIGN_OR_RETURN(const auto models, history->Models(run.run_id));
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
  if (!models.empty()) {
    fields.insert(fields.end(), {{"model_digest", models.back().digest},
                                 {"path", TextCell(models.back().path)},
                                 {"bytes", models.back().bytes},
                                 {"parameters", models.back().parameters}});
  }
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
  Table table({{"run_id", true},
               {"round"},
               {"attempt"},
               {"status"},
               {"reason", false, 4, 40},
               {"started_at", true},
               {"finished_at", true},
               {"selected"},
               {"reported"},
               {"dropped"},
               {"failed"},
               {"examples"},
               {"train_loss"},
               {"test_accuracy"},
               {"test_loss"},
               {"bytes_down", true},
               {"bytes_up", true},
               {"train_seconds", false, 2},
               {"aggregate_seconds", true},
               {"evaluate_seconds", true},
               {"model_digest", false, 4, 13}});
  for (const RoundRow& round : rounds) {
    const auto found = evaluated.find(round.round);
    const bool committed = round.status == "committed" && found != evaluated.end();
    table.Add({round.run_id,
               round.round,
               round.attempt,
               round.status,
               TextCell(round.reason),
               TextCell(round.started_at),
               TextCell(round.finished_at),
               round.selected,
               round.reported,
               round.dropped,
               round.failed,
               round.examples,
               CellOrNull(round.train_loss),
               committed ? CellOrNull(found->second->test_accuracy) : Cell(),
               committed ? CellOrNull(found->second->test_loss) : Cell(),
               round.bytes_down,
               round.bytes_up,
               round.train_seconds,
               round.aggregate_seconds,
               round.evaluate_seconds,
               TextCell(round.model_digest)});
  }
  return Print(table, options, "no rounds yet");
}

Status Clients(const RunsOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(options.db, History::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(const RunRow run, history->ResolveRun(options.run));
  RIVULET_ASSIGN_OR_RETURN(const auto clients, history->ClientReliability(run.run_id));
  Table table({{"run_id", true},
               {"client_id"},
               {"tasks"},
               {"folded"},
               {"refused"},
               {"dropped"},
               {"failed"},
               {"reliability"},
               {"examples"},
               {"mean_train_seconds", false, 3},
               {"last_seen_at"}});
  for (const ClientReliabilityRow& client : clients) {
    table.Add({client.run_id, client.client_id, client.tasks, client.folded, client.refused, client.dropped,
               client.failed, client.reliability, client.examples, CellOrNull(client.mean_train_seconds),
               TextCell(client.last_seen_at)});
  }
  return Print(table, options, "no client has had a task yet");
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
  };
  return command;
});

}  // namespace
}  // namespace rivulet
