#include "inspect/listed_runs.h"

#include <algorithm>

#include "coordinator/history/row_columns.h"
#include "engine/base/nearest.h"
#include "engine/base/shown_text.h"
#include "engine/base/usage_error.h"
#include "inspect/run_status.h"

namespace rivulet {
namespace {

// As TOML writes it, or without its quotes; numbers by their value.
bool Says(const Cell& cell, const std::string& wanted) {
  const Cell other = CellOfToml(wanted);
  if (cell == other) return true;
  const auto* real = std::get_if<double>(&cell);
  const auto* integer = std::get_if<int64_t>(&other);
  return real != nullptr && integer != nullptr && *real == static_cast<double>(*integer);
}

}  // namespace

StatusOr<std::vector<ListedRun>> LoadListedRuns(History& history) {
  RIVULET_ASSIGN_OR_RETURN(const auto rows, history.RunSummaries());
  std::vector<ListedRun> runs;
  for (const RunSummaryRow& row : rows) {
    ListedRun& run = runs.emplace_back();
    run.row = row;
    run.row.status = StatusNow(history.real_path(), row.run_id, row.status);
    RIVULET_ASSIGN_OR_RETURN(const auto keys, history.RunKeys(row.run_id));
    for (const RunKeyRow& key : keys) run.keys[key.key] = key.value;
    RIVULET_ASSIGN_OR_RETURN(const auto tags, history.Tags(row.run_id));
    for (const TagRow& tag : tags) run.tags.push_back(tag.tag);
  }
  return runs;
}

// What a run has under a name: a column of the list, or a key of its configuration; null where it has no such key.
Cell ValueUnder(const ListedRun& run, const std::string& name) {
  for (auto& [column, value] : Shown(run.row))
    if (column == name) return value;
  const auto found = run.keys.find(name);
  return found == run.keys.end() ? Cell() : CellOfToml(found->second);
}

Status CheckListName(const std::vector<ListedRun>& runs, const std::string& name, std::string_view option) {
  std::vector<std::string> known(std::begin(kListColumns), std::end(kListColumns));
  known.push_back("run_id");
  if (option == "--where") known.push_back("tag");
  for (const ListedRun& run : runs)
    for (const auto& [key, value] : run.keys) known.push_back(key);
  if (runs.empty() || std::ranges::find(known, name) != known.end()) return absl::OkStatus();
  return UsageError("{}: no run has '{}', which is neither a column of the list nor a key of a scenario.{}", option,
                    Shortened(name), DidYouMean(name, known));
}

Status KeepWhere(std::vector<ListedRun>& runs, const std::vector<std::string>& conditions) {
  for (const std::string& condition : conditions) {
    const size_t equals = condition.find('=');
    if (equals == std::string::npos || equals == 0)
      return UsageError("--where takes KEY=VALUE, not '{}'", Shortened(condition));
    const std::string name = condition.substr(0, equals), wanted = condition.substr(equals + 1);
    RIVULET_RETURN_IF_ERROR(CheckListName(runs, name, "--where"));
    std::erase_if(runs, [&](const ListedRun& run) {
      if (name == "tag") return std::ranges::find(run.tags, wanted) == run.tags.end();
      return !Says(ValueUnder(run, name), wanted);
    });
  }
  return absl::OkStatus();
}

}  // namespace rivulet
