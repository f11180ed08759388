// rivulet runs import: the runs of another history, with their models, or runs from TensorBoard's event files.
#include <unistd.h>

#include <algorithm>

#include "cli/runs/commands.h"
#include "coordinator/model_store/model_store.h"
#include "engine/base/clock.h"
#include "engine/base/file_system.h"
#include "federated/plan/plan.h"
#include "federated/weights/model.h"
#include "inspect/event_runs.h"

namespace rivulet {
namespace {

struct ImportRunsOptions {
  HistoryOptions history;
  std::string other;
};

// The files of a run's folder that are copied with it, each checked against its row.
struct RunFiles {
  std::string run_id;
  std::vector<std::pair<std::string, std::string>> files;  // name and bytes
};

bool IsFolderName(const std::string& run_id) {
  return !run_id.empty() && run_id.size() <= 200 && run_id[0] != '.' &&
         run_id.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") == run_id.npos;
}

std::string RunFolder(const History& history, const std::string& run_id) {
  return JoinPath(FolderOf(history.real_path()), History::ModelsFolder(history.real_path(), run_id));
}

// DATA_LOSS: a file differs from its row. FAILED_PRECONDITION: it is missing, or cannot be checked.
StatusOr<RunFiles> ReadRunFiles(History& other, const RunRow& run) {
  if (!IsFolderName(run.run_id))
    return DataLoss("the history '{}' has a run whose id is no name of a folder ('{}'); nothing of it was taken",
                    other.path(), Shortened(OneLine(run.run_id)));
  FileSystem& fs = FileSystem::Default();
  RunFiles result{.run_id = run.run_id, .files = {}};
  RIVULET_ASSIGN_OR_RETURN(const auto models, other.Models(run.run_id));
  RIVULET_ASSIGN_OR_RETURN(const std::optional<std::string> bytes,
                           ModelStore::ReadPlan(fs, other.real_path(), run.run_id, run.plan_digest));
  std::shared_ptr<const Plan> plan;
  if (bytes) {
    RIVULET_ASSIGN_OR_RETURN(plan, Plan::Open(*bytes));
    result.files.emplace_back("plan", *bytes);
  }
  for (const ModelRow& row : models) {
    if (row.path.empty()) continue;
    const std::string name = fmt::format("round-{:06}.safetensors", row.round);
    const std::string path = JoinPath(RunFolder(other, run.run_id), name);
    if (plan == nullptr || !fs.Exists(path))
      return FailedPrecondition(
          "run '{}' of the history '{}' has a model of round {}, but '{}' is missing; copy '{}.models' with the "
          "history",
          run.run_id, other.path(), row.round, plan == nullptr ? JoinPath(RunFolder(other, run.run_id), "plan") : path,
          other.path());
    RIVULET_ASSIGN_OR_RETURN(std::string file, fs.ReadAll(path));
    const StatusOr<std::shared_ptr<Model>> model = ModelFromSafetensors(plan->layout(), file);
    if (!model.ok()) return Annotate(model.status(), path);
    if (const std::string digest = (*model)->ComputeDigest().Hex(); digest != row.digest)
      return DataLoss("'{}' is not the model of the history: its digest is {}, and its row has {}", path, digest,
                      row.digest);
    result.files.emplace_back(name, std::move(file));
  }
  return result;
}

// Imports all or, with an error, those before it: each is complete.
Status ImportEventRuns(const ImportRunsOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<EventRun> theirs, ReadEventRuns(options.other));
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(options.history.db, History::Access::kReadWrite));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<RunRow> ours, history->Runs());
  const auto known = [&](const EventRun& run) { return std::ranges::find(ours, run.run.run_id, &RunRow::run_id); };
  for (const EventRun& run : theirs) {
    const auto found = known(run);
    if (found != ours.end() && (found->created_at != run.run.created_at || found->version != run.run.version)) {
      return AlreadyExists(
          "the history has a run '{}', which is another than that of '{}'; rename the folder of the event files, "
          "nothing was imported",
          run.run.run_id, options.other);
    }
  }
  Table table({{"run_id"}, {"imported"}, {"metrics"}});
  for (const EventRun& run : theirs) {
    const bool is_new = known(run) == ours.end();
    if (is_new) {
      RIVULET_RETURN_IF_ERROR(Annotate(history->AddForeignRun(run.run, run.keys, run.metrics), options.other));
      std::vector<EventRow> marks;
      for (const std::string& sentence : run.without_time) {
        marks.push_back({.run_id = run.run.run_id,
                         .at = Iso8601(Clock::System().UnixMs()),
                         .level = "warning",
                         .source = "import",
                         .message = sentence});
        PrintNote(sentence, Note::kImportant);
      }
      RIVULET_RETURN_IF_ERROR(history->AddEvents(marks));
    }
    table.Add({run.run.run_id, is_new, std::ssize(run.metrics)});
    if (run.not_finite > 0) {
      PrintNote(fmt::format("{} numbers of '{}' are NaN or infinite and were left out", run.not_finite, run.run.run_id),
                Note::kImportant);
    }
  }
  PrintRows(table, options.history.json, true, "it has no runs");
  return absl::OkStatus();
}

Status ImportRuns(const ImportRunsOptions& options) {
  if (MayHoldEventRuns(options.other)) return ImportEventRuns(options);
  RIVULET_ASSIGN_OR_RETURN(const auto other, History::Open(options.other, History::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(options.history.db, History::Access::kReadWrite));
  if (other->real_path() == history->real_path()) return UsageError("a history is not imported into itself");
  RIVULET_ASSIGN_OR_RETURN(std::vector<RunRow> theirs, other->Runs());
  RIVULET_ASSIGN_OR_RETURN(const std::vector<RunRow> ours, history->Runs());
  Table table({{"run_id"}, {"imported"}});
  std::vector<RunFiles> taken;
  std::ranges::reverse(theirs);  // oldest first, in the original order
  LongWork work("reading runs");
  const DataProgress tell = work.progress();
  int64_t looked_at = 0;
  for (const RunRow& run : theirs) {
    RIVULET_RETURN_IF_ERROR(tell(looked_at++, static_cast<int64_t>(theirs.size())));
    const auto known = std::ranges::find(ours, run.run_id, &RunRow::run_id);
    if (known != ours.end() && (known->created_at != run.created_at || known->plan_digest != run.plan_digest))
      return AlreadyExists("both histories have a run '{}', and they are not the same one; nothing was imported",
                           run.run_id);
    table.Add({run.run_id, known == ours.end()});
    if (known != ours.end()) continue;
    RIVULET_ASSIGN_OR_RETURN(RunFiles files, ReadRunFiles(*other, run));
    taken.push_back(std::move(files));
  }
  // Files come before the rows that name them. Without rows they do no harm, and are removed if the rows fail.
  FileSystem& fs = FileSystem::Default();
  std::vector<std::string> run_ids, written;
  const auto import = [&]() -> Status {
    for (const RunFiles& run : taken) {
      const std::string folder = RunFolder(*history, run.run_id);
      RIVULET_RETURN_IF_ERROR(fs.CreateFolders(folder));
      for (const auto& [name, bytes] : run.files) {
        RIVULET_RETURN_IF_ERROR(WriteFileAtomically(fs, JoinPath(folder, name), bytes));
        written.push_back(JoinPath(folder, name));
      }
      run_ids.push_back(run.run_id);
    }
    return history->Import(other->real_path(), run_ids);
  };
  if (const Status status = import(); !status.ok()) {
    for (const std::string& path : written) fs.Remove(path).IgnoreError();
    for (const RunFiles& run : taken) rmdir(RunFolder(*history, run.run_id).c_str());  // foreign files keep theirs
    return status;
  }
  PrintRows(table, options.history.json, true, "it has no runs");
  return absl::OkStatus();
}

}  // namespace

Command RunsImportCommand() {
  auto options = std::make_shared<ImportRunsOptions>();
  Command command{.name = "import",
                  .summary =
                      "Import the runs of another history with their models, or the numbers of TensorBoard's event "
                      "files. Existing runs stay.",
                  .example = "rivulet runs import colleague/rivulet.sqlite\n  rivulet runs import logs"};
  command.Positional(
      "DB|LOGDIR", &options->other,
      "the other history, with its models beside it, or a folder with one folder of event files per run");
  AddHistoryOptions(command, &options->history);
  command.run = [options] { return ImportRuns(*options); };
  return command;
}

}  // namespace rivulet
