// Subcommands of `rivulet runs`, a file each, and their shared helpers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/long_work.h"
#include "coordinator/history/history.h"
#include "coordinator/history/row_columns.h"
#include "engine/base/table.h"

namespace rivulet {

Command RunsListCommand();
Command RunsShowCommand();
Command RunsRoundsCommand();
Command RunsClientsCommand();
Command RunsCompareCommand();
Command RunsPlotCommand();
Command RunsTailCommand();
Command RunsExportCommand();
Command RunsSqlCommand();
Command RunsVerifyCommand();
Command RunsProfileCommand();
Command RunsPruneCommand();
Command RunsImportCommand();
Command RunsTagCommand();
Command RunsNoteCommand();

struct HistoryOptions {
  std::string db = "./rivulet.sqlite";
  bool json = false;
};
// Declares --db, and --json if `json`.
void AddHistoryOptions(Command& command, HistoryOptions* options, bool json = true);
// Declares --where, which KeepWhere (inspect/listed_runs.h) applies.
void AddWhere(Command& command, std::vector<std::string>* conditions);
inline constexpr char kRunsHelp[] =
    "runs by id, name or 'latest', or all by KEY=VALUE as in `rivulet runs list --where`";
inline constexpr char kRunHelp[] = "a run's id or name, or 'latest'";

inline StatusOr<std::unique_ptr<History>> OpenToRead(const HistoryOptions& options) {
  return History::Open(options.db, History::Access::kReadOnly);
}

// The same with progress in `work`, and a stop by Ctrl-C. `work` must outlive it.
inline StatusOr<std::unique_ptr<History>> OpenToRead(const HistoryOptions& options, LongWork& work) {
  RIVULET_ASSIGN_OR_RETURN(auto history, OpenToRead(options));
  history->TellReading(work.progress());
  return history;
}

// Prints on stdout, as JSON or as lines: fitted into the terminal unless `wide`; `when_empty` if there is no row.
void PrintRows(const Table& table, bool json, bool wide, std::string_view when_empty);

// A row's cells, under the names of its columns.
template <typename Row>
std::vector<Cell> CellsOf(const Row& row) {
  std::vector<Cell> cells;
  for (auto& [name, value] : Shown(row)) cells.push_back(std::move(value));
  return cells;
}

// All columns of a row in the order of its table, each printed by its entry in `how`, or unchanged.
template <typename Row>
std::vector<Column> ColumnsOf(const std::vector<Column>& how) {
  std::vector<Column> columns;
  ForEachColumn<Row>([&](const auto& column) {
    const Column* said = nullptr;
    for (const Column& one : how)
      if (one.name == column.name) said = &one;
    columns.push_back(said != nullptr ? *said : Column{column.name});
  });
  return columns;
}

}  // namespace rivulet
