// rivulet runs: a history's content, for people and as JSON, and people's remarks on its runs.
#include "cli/runs/commands.h"
#include "cli/terminal.h"

namespace rivulet {

void AddWhere(Command& command, std::vector<std::string>* conditions) {
  command.Repeated("--where", "KEY=VALUE", conditions,
                   "only runs of this name, status, seed, tag or key of the scenario; repeatable");
}

void AddHistoryOptions(Command& command, HistoryOptions* options, bool json) {
  command.Option("--db", "FILE", &options->db, "the history [./rivulet.sqlite]");
  if (json)
    command.Flag("--json", &options->json, "print JSON; keys are the column names of docs/reference/history.md");
}

void PrintRows(const Table& table, bool json, bool wide, std::string_view when_empty) {
  if (json) {
    fmt::print("{}", table.Json());
  } else if (table.size() == 0) {
    fmt::print("{}\n", when_empty);
  } else {
    const std::string text = table.Text(wide ? 0 : ResultColumns());
    const size_t titles = text.find('\n');
    fmt::print("{}{}", Emphasised(Emphasis::kHeading, std::string_view(text).substr(0, titles)), text.substr(titles));
  }
}

namespace {

const RegisterCommand kRuns(40, [] {
  Command command{.name = "runs",
                  .summary = "Inspect the history of runs.",
                  .example =
                      "rivulet runs list\n"
                      "  rivulet runs show latest\n"
                      "  rivulet runs rounds latest --db ./rivulet.sqlite"};
  command.subcommands = {RunsListCommand(),    RunsShowCommand(),    RunsRoundsCommand(), RunsClientsCommand(),
                         RunsCompareCommand(), RunsPlotCommand(),    RunsTailCommand(),   RunsExportCommand(),
                         RunsSqlCommand(),     RunsProfileCommand(), RunsVerifyCommand(), RunsPruneCommand(),
                         RunsImportCommand(),  RunsTagCommand(),     RunsNoteCommand()};
  return command;
});

}  // namespace
}  // namespace rivulet
