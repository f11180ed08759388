// rivulet runs prune: removes old runs with their rows and models.
#include <unistd.h>

#include <algorithm>

#include "cli/runs/commands.h"
#include "coordinator/intake/report_store.h"
#include "coordinator/model_store/model_store.h"
#include "engine/base/file_system.h"
#include "engine/base/temporary_name.h"
#include "federated/states/state_store.h"
#include "inspect/listed_runs.h"

namespace rivulet {
namespace {

struct PruneOptions {
  HistoryOptions history;
  std::optional<int64_t> keep;
  std::vector<std::string> where;
  bool yes = false;
};

// Only known files of a run's folder; other files are foreign, and stay with the folder.
bool IsRunFile(const std::string& name) {
  const std::string_view whole = WithoutTemporary(name);
  const bool of_aggregation =
      whole.starts_with("aggregate-") && whole.ends_with(".pickle");  // python/rivulet/_aggregate.py
  return name == "lock" || whole == "plan" || of_aggregation || ModelStore::IsModelFile(name);
}

// Its lock is held until its files are removed, so that no process resumes it meanwhile. The rows go first: files
// without rows do no harm, while rows without files would be a run that cannot be resumed.
Status RemoveRun(History& history, const std::string& run_id) {
  FileSystem& fs = FileSystem::Default();
  const std::string folder =
      JoinPath(FolderOf(history.real_path()), History::ModelsFolder(history.real_path(), run_id));
  std::unique_ptr<FileLock> lock;
  if (fs.Exists(folder)) {
    RIVULET_ASSIGN_OR_RETURN(lock, FileLock::Acquire(JoinPath(folder, "lock")));
  }
  RIVULET_RETURN_IF_ERROR(history.RemoveRun(run_id));
  if (lock == nullptr) return absl::OkStatus();
  ReportStore::RemoveAll(fs, folder);
  RemoveStates(fs, folder);
  RIVULET_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs.List(folder));
  for (const std::string& name : names)
    if (IsRunFile(name)) RIVULET_RETURN_IF_ERROR(fs.Remove(JoinPath(folder, name)));
  if (rmdir(folder.c_str()) != 0) fmt::print(stderr, "'{}' holds other files and stays\n", folder);
  return absl::OkStatus();
}

Status PruneRuns(const PruneOptions& options) {
  std::vector<ListedRun> runs;
  {
    RIVULET_ASSIGN_OR_RETURN(const auto history, OpenToRead(options.history));
    RIVULET_ASSIGN_OR_RETURN(runs, LoadListedRuns(*history));
  }
  RIVULET_RETURN_IF_ERROR(KeepWhere(runs, options.where));
  runs.erase(runs.begin(), runs.begin() + std::min<std::ptrdiff_t>(*options.keep, std::ssize(runs)));
  // A tag says that the run is still in use.
  std::erase_if(runs, [](const ListedRun& run) { return !run.tags.empty() || run.row.status == "running"; });
  // An id that is no plain name comes from a foreign history, and leads out of its folder.
  for (const ListedRun& run : runs) {
    if (run.row.run_id.find('/') != std::string::npos || run.row.run_id.starts_with('.'))
      return DataLoss("the run id '{}' of the history '{}' is no name of a folder; nothing was removed", run.row.run_id,
                      options.history.db);
  }
  std::unique_ptr<History> history;
  if (options.yes && !runs.empty()) {
    RIVULET_ASSIGN_OR_RETURN(history, History::Open(options.history.db, History::Access::kReadWrite));
  }
  Table table({{"run_id"}, {"status"}, {"removed"}});
  for (const ListedRun& run : runs) {
    if (history != nullptr) RIVULET_RETURN_IF_ERROR(RemoveRun(*history, run.row.run_id));
    table.Add({run.row.run_id, run.row.status, history != nullptr});
  }
  PrintRows(table, options.history.json, true, "there is nothing to remove");
  if (!options.yes && !runs.empty())
    fmt::print(stderr, "nothing was removed; --yes removes {} with rows and models\n",
               runs.size() == 1 ? "this run" : fmt::format("these {} runs", runs.size()));
  return absl::OkStatus();
}

}  // namespace

Command RunsPruneCommand() {
  auto options = std::make_shared<PruneOptions>();
  Command command{.name = "prune",
                  .summary = "Remove old runs with their rows and models. Tagged and active runs stay.",
                  .example =
                      "rivulet runs prune --keep 20\n"
                      "  rivulet runs prune --keep 0 --where status=failed --yes"};
  command.Required("--keep", "N", &options->keep, "keep the newest N runs", {0})
      .Flag("--yes", &options->yes, "remove them; without it, only list them");
  AddWhere(command, &options->where);
  AddHistoryOptions(command, &options->history);
  command.run = [options] { return PruneRuns(*options); };
  return command;
}

}  // namespace rivulet
