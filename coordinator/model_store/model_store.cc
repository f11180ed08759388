#include "coordinator/model_store/model_store.h"

#include <algorithm>

#include "engine/io/atomic_file.h"

namespace rivulet {
namespace {

std::string FileName(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

}  // namespace

ModelStore::ModelStore(FileSystem& fs, std::string db_folder, std::string relative, std::string run_id)
    : fs_(fs),
      db_folder_(std::move(db_folder)),
      relative_(std::move(relative)),
      folder_(JoinPath(db_folder_, relative_)),
      run_id_(std::move(run_id)) {}

// Two processes that write one run would overwrite each other's rounds, and SQLite's locks last for a transaction only.
// The lock lies beside the models and is the operating system's, so it goes with the process that held it.
StatusOr<std::unique_ptr<ModelStore>> ModelStore::Open(FileSystem& fs, const std::string& db_path,
                                                       const std::string& run_id) {
  std::unique_ptr<ModelStore> store(
      new ModelStore(fs, FolderOf(db_path), FileName(db_path) + ".models/" + run_id, run_id));
  RIVULET_RETURN_IF_ERROR(fs.CreateFolders(store->folder_));
  auto lock = FileLock::Acquire(JoinPath(store->folder_, "lock"));
  if (lock.status().code() == absl::StatusCode::kUnavailable) {
    return Unavailable("run '{}' belongs to another process that is still running; stop it first ({})", run_id,
                       Message(lock.status()));
  }
  RIVULET_RETURN_IF_ERROR(lock.status());
  store->lock_ = *std::move(lock);
  return store;
}

// The file is also what clients download. Its bytes are a function of run, round and model alone, so that a download
// that is cut off by a restart goes on in the same bytes.
std::shared_ptr<const ModelFile> ModelStore::FileOf(int64_t round, std::shared_ptr<const Model> model,
                                                    const Digest& digest) const {
  return std::make_shared<const ModelFile>(
      std::move(model), digest,
      std::map<std::string, std::string>{{"rivulet.run_id", run_id_}, {"rivulet.round", fmt::format("{}", round)}});
}

StatusOr<StoredModel> ModelStore::Save(int64_t round, std::shared_ptr<const Model> model, const Digest& digest) {
  StoredModel stored;
  stored.file = FileOf(round, model, digest);
  stored.digest = digest;
  stored.row = {run_id_,
                round,
                stored.digest.Hex(),
                fmt::format("{}/round-{:06}.safetensors", relative_, round),
                stored.file->bytes(),
                model->layout().parameters()};
  const auto write = [&]() -> Status {
    RIVULET_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(fs_, PathOf(stored.row)));
    for (const std::span<const std::byte> piece : stored.file->pieces()) RIVULET_RETURN_IF_ERROR(file->Append(piece));
    return file->Commit();
  };
  if (const Status status = write(); !status.ok()) {
    // The rename may have succeeded and the folder's sync failed: then the file is there and no row will name it.
    if (fs_.Exists(PathOf(stored.row))) fs_.Remove(PathOf(stored.row)).IgnoreError();
    return status;
  }
  stored.model = std::move(model);
  return stored;
}

// A run must go on from exactly the model that its rows name, or the same seed would no longer give the same bits;
// whatever differs is refused with the way out.
StatusOr<StoredModel> ModelStore::Load(const ModelRow& row, std::shared_ptr<const ModelLayout> layout) {
  const auto refuse = [&](std::string_view why) {
    return FailedPrecondition("the model of round {} of run '{}' cannot be used, '{}': {}; restore it from a copy",
                              row.round, run_id_, PathOf(row), why);
  };
  if (row.path.empty()) {
    return FailedPrecondition("the model of round {} of run '{}' was removed; the run cannot go on from it", row.round,
                              run_id_);
  }
  StatusOr<std::string> bytes = fs_.ReadAll(PathOf(row));
  if (!bytes.ok()) return refuse(Message(bytes.status()));
  StatusOr<std::shared_ptr<Model>> model = ModelFromSafetensors(std::move(layout), *bytes);
  if (!model.ok()) return refuse(Message(model.status()));
  StoredModel stored;
  stored.digest = (*model)->ComputeDigest();
  if (stored.digest.Hex() != row.digest) {
    return refuse(fmt::format("its digest is {} and the history says {}", stored.digest.Hex(), row.digest));
  }
  stored.model = *std::move(model);
  stored.file = FileOf(row.round, stored.model, stored.digest);
  stored.row = row;
  return stored;
}

Status ModelStore::CheckFiles(std::span<const ModelRow> rows) const {
  for (const ModelRow& row : rows) {
    if (!row.path.empty() && !fs_.Exists(PathOf(row))) {
      return FailedPrecondition("the model of round {} of run '{}' is missing: '{}'; restore it from a copy", row.round,
                                run_id_, PathOf(row));
    }
  }
  return absl::OkStatus();
}

// Only at the start of a process, when no commit is under way: then a file without a row is what a crash between the
// two has left.
Status ModelStore::RemoveUnnamed(std::span<const ModelRow> rows) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs_.List(folder_));
  for (const std::string& name : names) {
    if (!name.starts_with("round-")) continue;
    const bool named = std::any_of(
        rows.begin(), rows.end(), [&](const ModelRow& row) { return !row.path.empty() && FileName(row.path) == name; });
    if (!named) RIVULET_RETURN_IF_ERROR(fs_.Remove(JoinPath(folder_, name)));
  }
  return absl::OkStatus();
}

Status ModelStore::Remove(const ModelRow& row) { return row.path.empty() ? absl::OkStatus() : fs_.Remove(PathOf(row)); }

}  // namespace rivulet
