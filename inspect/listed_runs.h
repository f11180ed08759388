// Runs as a list has them, and which of them somebody means.
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

// What a run has under a name: a column of the list, or a key of its configuration; null where it has no such key.
Cell ValueUnder(const ListedRun& run, const std::string& name);

// A usage error where no run has that name; `option` begins the sentence.
Status CheckListName(const std::vector<ListedRun>& runs, const std::string& name, std::string_view option);

// Leaves those of `runs` to which every KEY=VALUE applies. Usage errors.
Status KeepWhere(std::vector<ListedRun>& runs, const std::vector<std::string>& conditions);

}  // namespace rivulet
