// Rows of a list of runs, and selection of runs by name, prefix or condition.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/history/history.h"
#include "inspect/configuration.h"

namespace rivulet {

struct ListedRun {
  RunSummaryRow row;                        // with its present status (run_status.h)
  std::map<std::string, std::string> keys;  // values as TOML
  std::vector<std::string> tags;
};

inline constexpr const char* kListColumns[] = {"created_at", "name",       "status",        "seed",         "rounds",
                                               "seconds",    "best_round", "best_accuracy", "last_accuracy"};

// Newest first.
StatusOr<std::vector<ListedRun>> LoadListedRuns(History& history);

// A run's value under a name: a column of the list, or a key of its configuration; null if it has no such key.
Cell ValueUnder(const ListedRun& run, const std::string& name);

// A usage error if no run has that name; `option` begins the sentence.
Status CheckListName(const std::vector<ListedRun>& runs, const std::string& name, std::string_view option);

// Keeps those of `runs` to which every KEY=VALUE applies. Usage errors.
Status KeepWhere(std::vector<ListedRun>& runs, const std::vector<std::string>& conditions);

// The runs selected by `words`, each once, in that order: a run's id or name or 'latest' (History::ResolveRun), or all
// runs to which a KEY=VALUE applies, oldest first. NOT_FOUND: there is none. Usage errors.
StatusOr<std::vector<ListedRun>> RunsMeant(History& history, const std::vector<std::string>& words);

// The keys that distinguish `runs` in a list, most interesting ones first. Keys with separate columns (the
// run's name and seed, its algorithm and learning rate) are left out; keys of a single algorithm or attack come
// last.
std::vector<std::string> TellingKeys(const std::vector<ListedRun>& runs);
inline constexpr char kAlgorithmKey[] = "algorithm.name", kLearningRateKey[] = "client.optimizer.learning_rate";
// A key's value for a list: text without quotes, numbers with their original digits; "": the run has no such key.
std::string KeyText(const ListedRun& run, const std::string& key);

}  // namespace rivulet
