#include "coordinator/history/backup.h"

#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "coordinator/history/database.h"
#include "coordinator/history/history.h"
#include "engine/base/folder_lock.h"
#include "engine/base/sha256.h"
#include "engine/base/temporary_name.h"

namespace rivulet {
namespace {

// Files that SQLite keeps beside a database, and the database itself.
constexpr std::string_view kBeside[] = {"-journal", "-wal", "-shm", ""};

// Removes the unfinished copies of killed backups to `to`.
void RemoveLeftOf(FileSystem& fs, const std::string& to) {
  const auto names = fs.List(FolderOf(to));
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    for (const std::string_view beside : kBeside) {
      if (!name.ends_with(beside)) continue;
      const auto target = TargetOfTemporary(std::string_view(name).substr(0, name.size() - beside.size()));
      if (target && *target == std::string_view(to).substr(to.rfind('/') + 1))
        fs.Remove(JoinPath(FolderOf(to), name)).IgnoreError();
      break;
    }
  }
}

struct KeptModel {
  std::string run_id, file;
  int64_t round = 0, bytes = 0;
  bool newest = false;  // the run's newest, from which it resumes
};

// Model files named in the copy. A file with another name than the program's is foreign, and is not
// copied.
StatusOr<std::vector<KeptModel>> ModelsOf(Database& copy) {
  std::vector<KeptModel> models;
  RIVULET_RETURN_IF_ERROR(copy.Query(
      "SELECT r.run_id, m.file, m.round, m.round = (SELECT max(n.round) FROM model n WHERE n.run = m.run), "
      "m.bytes FROM model m JOIN run r ON r.run = m.run WHERE m.file = printf('round-%06d.safetensors', m.round)",
      {}, [&](const SqlRow& row) {
        models.push_back({row.Text(0), row.Text(1), row.Int(2), row.Int(4), row.Int(3) != 0});
      }));
  return models;
}

// Whether the name exists, even as a dangling link.
bool IsThere(const std::string& path, struct stat* info) { return lstat(path.c_str(), info) == 0; }

// Copies the file `from`, if `is_whole` is true of its bytes. An existing file was copied with the previous snapshot;
// versions are never written again. A link could lead to a foreign file, which a backup would then reveal.
Status CopyFile(FileSystem& fs, const std::string& from, const std::string& to,
                const std::function<bool(const std::string& bytes)>& is_whole, Backup& backup) {
  if (fs.Exists(to)) return absl::OkStatus();
  struct stat info;
  if (IsThere(from, &info) && S_ISLNK(info.st_mode))
    return FailedPrecondition("'{}' is a link, and a backup copies plain files alone; put the file in its place", from);
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, fs.ReadAll(from));
  if (!is_whole(bytes))
    return DataLoss("'{}' is not the file that its run has written; 'rivulet runs verify' says which are whole", from);
  RIVULET_RETURN_IF_ERROR(WriteFileAtomically(fs, to, bytes));
  ++backup.files;
  backup.bytes += std::ssize(bytes);
  return absl::OkStatus();
}

StatusOr<Backup> CopyHistory(FileSystem& fs, const std::string& from, const std::string& to, const std::string& part) {
  struct stat info;
  if (IsThere(to, &info))
    return AlreadyExists("'{}' is there already, and a backup replaces nothing; name another", to);
  RemoveLeftOf(fs, to);
  std::string real_from;
  {
    // Opening checks that it is a history, and migrates it.
    RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(from, History::Access::kReadOnly));
    real_from = history->real_path();
  }
  RIVULET_RETURN_IF_ERROR(fs.CreateFolders(FolderOf(to)));
  Backup backup;
  const auto folder = [](const std::string& db, const std::string& run_id) {
    return JoinPath(FolderOf(db), History::ModelsFolder(db, run_id));
  };
  // A run that commits while its last version is copied may remove that one. Then its folder is locked against removals
  // for a while, and the history is copied again. Each repetition has less to copy. The limit is for file systems
  // without folder locks.
  constexpr int kMostTimes = 100;
  std::map<std::string, std::unique_ptr<FolderLock>> asked;  // run ids
  for (int times = 1;; ++times) {
    if (fs.Exists(part)) RIVULET_RETURN_IF_ERROR(fs.Remove(part));
    {
      RIVULET_ASSIGN_OR_RETURN(const auto source, Database::Open(real_from, Database::Access::kReadOnly));
      RIVULET_RETURN_IF_ERROR(source->BackUp(part));
    }
    RIVULET_ASSIGN_OR_RETURN(const auto copy, Database::Open(part, Database::Access::kReadWrite));
    RIVULET_ASSIGN_OR_RETURN(const std::vector<KeptModel> models, ModelsOf(*copy));
    std::vector<std::pair<std::string, std::string>> runs;  // with the plan's digest, in hexadecimal digits
    RIVULET_RETURN_IF_ERROR(copy->Query("SELECT run_id, lower(hex(plan_digest)) FROM run", {},
                                        [&](const SqlRow& row) { runs.emplace_back(row.Text(0), row.Text(1)); }));
    backup.runs = std::ssize(runs);
    for (const auto& [run_id, plan_digest] : runs) {
      if (run_id.empty() || run_id.find('/') != std::string::npos || run_id.starts_with('.'))
        return DataLoss("the run id '{}' of the history '{}' is no name of a folder", run_id, from);
      if (!fs.Exists(folder(real_from, run_id))) continue;
      RIVULET_RETURN_IF_ERROR(fs.CreateFolders(folder(to, run_id)));
      const auto is_plan = [&](const std::string& bytes) { return Sha256Of(bytes).Hex() == plan_digest; };
      const Status plan = CopyFile(fs, JoinPath(folder(real_from, run_id), "plan"),
                                   JoinPath(folder(to, run_id), "plan"), is_plan, backup);
      if (!plan.ok() && !absl::IsNotFound(plan)) return plan;  // the run is older than stored plans
      RIVULET_RETURN_IF_ERROR(copy->Run("UPDATE run SET models = ? WHERE run_id = ? AND models <> ''",
                                        {History::ModelsFolder(to, run_id), run_id}));
    }
    std::set<std::string> missing;  // runs without their last version
    for (const KeptModel& model : models) {
      const auto is_model = [&](const std::string& bytes) { return std::ssize(bytes) == model.bytes; };
      const Status copied = CopyFile(fs, JoinPath(folder(real_from, model.run_id), model.file),
                                     JoinPath(folder(to, model.run_id), model.file), is_model, backup);
      if (!copied.ok() && !absl::IsNotFound(copied)) return copied;
      if (copied.ok()) continue;
      if (model.newest) missing.insert(model.run_id);
      RIVULET_RETURN_IF_ERROR(
          copy->Run("UPDATE model SET file = NULL WHERE round = ? AND run = (SELECT run FROM run WHERE run_id = ?)",
                    {model.round, model.run_id}));
    }
    if (missing.empty()) break;
    const bool lost = std::ranges::any_of(missing, [&](const std::string& run) { return asked.contains(run); });
    if (lost || times == kMostTimes)
      return DataLoss("the last version of a run of '{}' is not in its folder; 'rivulet runs verify' names the run",
                      from);
    for (const std::string& run : missing) {
      if (auto lock = FolderLock::ToRead(folder(real_from, run)); lock.ok()) asked[run] = *std::move(lock);
    }
  }
  RIVULET_RETURN_IF_ERROR(fs.Rename(part, to));
  RIVULET_RETURN_IF_ERROR(fs.SyncFolder(FolderOf(to)));
  return backup;
}

}  // namespace

// Models that were copied stay: they are complete, and the next attempt needs them. An incomplete history is removed.
StatusOr<Backup> BackUpHistory(FileSystem& fs, const std::string& from, const std::string& to) {
  const std::string part = TemporaryNameOf(to);
  StatusOr<Backup> backup = CopyHistory(fs, from, to, part);
  if (!backup.ok()) {
    for (const std::string_view beside : kBeside)
      if (const std::string path = part + std::string(beside); fs.Exists(path)) fs.Remove(path).IgnoreError();
  }
  return backup;
}

}  // namespace rivulet
