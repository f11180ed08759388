#include "inspect/listed_runs.h"

#include <algorithm>
#include <ranges>

#include "coordinator/history/row_columns.h"
#include "engine/base/nearest.h"
#include "engine/base/shown_text.h"
#include "engine/base/usage_error.h"
#include "inspect/run_status.h"

namespace rivulet {
namespace {

// As TOML, or without its quotes; numbers by their value.
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

// A run's value under a name: a column of the list, or a key of its configuration; null if it has no such key.
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

StatusOr<std::vector<ListedRun>> RunsMeant(History& history, const std::vector<std::string>& words) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<ListedRun> listed, LoadListedRuns(history));
  std::vector<ListedRun> meant;
  const auto take = [&](const ListedRun& run) {
    const auto is_run = [&](const ListedRun& other) { return other.row.run_id == run.row.run_id; };
    if (std::ranges::none_of(meant, is_run)) meant.push_back(run);
  };
  for (const std::string& word : words) {
    if (word.find('=') == word.npos) {
      RIVULET_ASSIGN_OR_RETURN(const RunRow run, history.ResolveRun(word));
      for (const ListedRun& one : listed)
        if (one.row.run_id == run.run_id) take(one);
      continue;
    }
    std::vector<ListedRun> kept = listed;
    RIVULET_RETURN_IF_ERROR(KeepWhere(kept, {word}));
    if (kept.empty()) return NotFound("no run of the history '{}' has {}", history.path(), Shortened(word));
    for (const ListedRun& run : kept | std::views::reverse) take(run);
  }
  return meant;
}

std::vector<std::string> TellingKeys(const std::vector<ListedRun>& runs) {
  std::vector<std::map<std::string, std::string>> keys;
  for (const ListedRun& run : runs) keys.push_back(run.keys);
  std::vector<std::string> of_all, of_some;
  for (const std::string& key : DifferingKeys(keys)) {
    if (key == "run.name" || key == "run.rounds" || key == "run.seed" || key == kAlgorithmKey ||
        key == kLearningRateKey)
      continue;
    (key.starts_with("algorithm.") || key.starts_with("attack.") ? of_some : of_all).push_back(key);
  }
  of_all.insert(of_all.end(), of_some.begin(), of_some.end());
  return of_all;
}

std::string KeyText(const ListedRun& run, const std::string& key) {
  const auto found = run.keys.find(key);
  if (found == run.keys.end()) return "";
  const Cell cell = CellOfToml(found->second);
  const auto* text = std::get_if<std::string>(&cell);
  return text != nullptr ? *text : found->second;
}

}  // namespace rivulet
