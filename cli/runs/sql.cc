// rivulet runs sql: a query in SQL, without the need for sqlite3.
#include "cli/runs/commands.h"

namespace rivulet {
namespace {

struct SqlOptions {
  HistoryOptions history;
  std::string sql;
};

Status AskHistory(const SqlOptions& options) {
  StatusOr<SqlAnswer> answer = [&]() -> StatusOr<SqlAnswer> {
    LongWork work("reading the history", true);  // its line is removed before the result is printed
    RIVULET_ASSIGN_OR_RETURN(const auto history, OpenToRead(options.history, work));
    return history->Ask(options.sql);
  }();
  if (!answer.ok()) return absl::IsInvalidArgument(answer.status()) ? AsUsageError(answer.status()) : answer.status();
  std::vector<Column> columns;
  for (const std::string& name : answer->columns) columns.push_back({.name = name, .digits = -1});
  Table table(std::move(columns));
  for (std::vector<SqlShown>& row : answer->rows) table.Add(std::move(row));
  // Every column was asked for.
  PrintRows(table, options.history.json, true, "no rows");
  return absl::OkStatus();
}

}  // namespace

Command RunsSqlCommand() {
  auto options = std::make_shared<SqlOptions>();
  Command command{.name = "sql",
                  .summary = "Query the history in SQL, read-only. docs/reference/history.md describes its views.",
                  .example = "rivulet runs sql \"SELECT run_id, best_accuracy FROM run_leaderboard LIMIT 5\""};
  command.Positional("SELECT", &options->sql, "one SQL statement, in quotes");
  AddHistoryOptions(command, &options->history);
  command.run = [options] { return AskHistory(*options); };
  return command;
}

}  // namespace rivulet
