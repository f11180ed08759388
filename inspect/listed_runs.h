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
  RunSummaryRow row;                        // with its status now (run_status.h)
  std::map<std::string, std::string> keys;  // values as TOML
  std::vector<std::string> tags;
};

inline constexpr const char* kListColumns[] = {"created_at", "name",       "status",        "seed",         "rounds",
                                               "seconds",    "best_round", "best_accuracy", "last_accuracy"};

// Newest first.
StatusOr<std::vector<ListedRun>> LoadListedRuns(History& history);

// A run's value under a name: a column of the list, or a key of its configuration; null if it has no such key.
Cell ValueUnder(const ListedRun& run, const std::string& name);

// A usage error where no run has that name; `option` begins the sentence.
Status CheckListName(const std::vector<ListedRun>& runs, const std::string& name, std::string_view option);

// Leaves those of `runs` to which every KEY=VALUE applies. Usage errors.
Status KeepWhere(std::vector<ListedRun>& runs, const std::vector<std::string>& conditions);

// Those that `words` mean, each once, in the order of the words: a run's id or name or 'latest' (History::ResolveRun),
// or every run to which a KEY=VALUE applies, oldest first. NOT_FOUND: there is none. Usage errors.
StatusOr<std::vector<ListedRun>> RunsMeant(History& history, const std::vector<std::string>& words);

// The keys by which a list tells `runs` apart, those that people look for first: beside what has columns of its own
// (the run's name and seed, its algorithm and learning rate) keys of any run, and last those of one algorithm or
// attack.
std::vector<std::string> TellingKeys(const std::vector<ListedRun>& runs);
inline constexpr char kAlgorithmKey[] = "algorithm.name", kLearningRateKey[] = "client.optimizer.learning_rate";
// A key's value as a list has it: text without quotes, numbers with the digits that they were given; "": it has none.
std::string KeyText(const ListedRun& run, const std::string& key);

}  // namespace rivulet
