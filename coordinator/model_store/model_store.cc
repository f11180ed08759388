#include "coordinator/model_store/model_store.h"

#include <algorithm>
#include <charconv>

#include "coordinator/history/history.h"
#include "engine/base/check.h"
#include "engine/base/temporary_name.h"
#include "engine/io/atomic_file.h"
#include "federated/records/version_record.h"

namespace rivulet {
namespace {

std::string NameOf(int64_t round) { return fmt::format("round-{:06}.safetensors", round); }

constexpr char kPlanName[] = "plan";

// The id becomes a folder's name; an edited history could otherwise name any folder.
Status CheckRunId(const std::string& db_path, const std::string& run_id) {
  if (!run_id.empty() && !run_id.starts_with('.') && run_id.find('/') == run_id.npos) return absl::OkStatus();
  return DataLoss("the history '{}' is damaged: '{}' is no id of a run", db_path, run_id);
}

}  // namespace

bool ModelStore::IsModelFile(std::string_view name) {
  int64_t round = 0;
  name = WithoutTemporary(name);
  if (!name.starts_with("round-")) return false;
  const auto [after, error] = std::from_chars(name.data() + 6, name.data() + name.size(), round);
  return error == std::errc() && round >= 0 && name == NameOf(round);
}

ModelStore::ModelStore(FileSystem& fs, const std::string& db_path, std::string run_id,
                       std::vector<std::string> broadcasts, std::map<std::string, std::string> metadata)
    : fs_(fs),
      relative_(History::ModelsFolder(db_path, run_id)),
      folder_(JoinPath(FolderOf(db_path), relative_)),
      run_id_(std::move(run_id)),
      broadcasts_(std::move(broadcasts)),
      metadata_(std::move(metadata)) {}

std::string ModelStore::PathOf(int64_t round) const { return JoinPath(folder_, NameOf(round)); }

// Two processes that write one run would overwrite each other's rounds, and SQLite's locks last only for a transaction.
// This lock is beside the models and is the operating system's, so it ends with its process.
StatusOr<std::unique_ptr<ModelStore>> ModelStore::Open(FileSystem& fs, const std::string& db_path,
                                                       const std::string& run_id, Folder folder,
                                                       std::vector<std::string> broadcasts,
                                                       std::map<std::string, std::string> metadata) {
  RIVULET_RETURN_IF_ERROR(CheckRunId(db_path, run_id));
  std::unique_ptr<ModelStore> store(new ModelStore(fs, db_path, run_id, std::move(broadcasts), std::move(metadata)));
  if (folder == Folder::kStored && !fs.Exists(store->folder_)) {
    return FailedPrecondition(
        "the models of run '{}' are not at '{}'; a history goes with the folder '{}.models' beside it: copy or rename "
        "that too",
        run_id, store->folder_, db_path);
  }
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

void ModelStore::SendBy(std::unique_ptr<const Download> download, uint64_t seed) {
  download_ = std::move(download);
  seed_ = seed;
}

Status ModelStore::WritePlan(std::string_view bytes) {
  return WriteFileAtomically(fs_, JoinPath(folder_, kPlanName), bytes);
}

StatusOr<std::optional<std::string>> ModelStore::ReadPlan(FileSystem& fs, const std::string& db_path,
                                                          const std::string& run_id, const std::string& digest) {
  RIVULET_RETURN_IF_ERROR(CheckRunId(db_path, run_id));
  const std::string path = JoinPath(JoinPath(FolderOf(db_path), History::ModelsFolder(db_path, run_id)), kPlanName);
  if (!fs.Exists(path)) return std::nullopt;
  RIVULET_ASSIGN_OR_RETURN(std::string bytes, fs.ReadAll(path));
  if (const Digest found = Sha256Of(bytes); found.Hex() != digest) {
    return DataLoss(
        "the plan of run '{}' is damaged, '{}': its digest is {} and the history has {}; restore it from a copy, or "
        "remove it to have it built again from the run's configuration",
        run_id, path, found.Hex(), digest);
  }
  return std::optional(std::move(bytes));
}

// Without flats and numbers it is the clients' download: they do not need the optimiser's state, which has the size of
// two models. Its bytes are a function of run, plan, round and model alone, so a download that a restart interrupts
// resumes in the same bytes. The record is in the server's file alone: a version that a crash has lost is made again
// with another record.
std::shared_ptr<const ModelFile> ModelStore::FileOf(int64_t round, const ServerState& state, Whose whose,
                                                    std::string_view record) const {
  std::map<std::string, std::string> metadata = metadata_;
  metadata["rivulet.run_id"] = run_id_;
  metadata["rivulet.round"] = fmt::format("{}", round);
  if (whose == Whose::kClients) return std::make_shared<const ModelFile>(state.model, state.digest, metadata, nullptr);
  if (state.numbers != nullptr) metadata[kServerNumbersKey] = TextOf(*state.numbers);
  if (!record.empty()) metadata[records::kRecordKey] = record;
  return std::make_shared<const ModelFile>(state.model, state.digest, metadata, state.flats);
}

// A broadcast is part of the version's file, so it is written, kept, removed and read with it; its digest is computed
// from its bytes and stored nowhere.
Status ModelStore::Announce(ServedVersion& version) const {
  const int64_t round = version.row.round;
  version.sent = version.model;
  version.sent_digest = version.digest;
  if (download_ != nullptr) {
    RIVULET_ASSIGN_OR_RETURN(Download::Sent sent, download_->Send(*version.model, seed_, round));
    version.encoded = std::make_shared<const std::string>(std::move(sent.bytes));
    version.sent_digest = sent.model->ComputeDigest();
    version.sent = std::move(sent.model);
  }
  version.file = FileOf(round, version, Whose::kClients);
  const bool same = version.flats == nullptr && version.numbers == nullptr && !states_records_;
  // Its record is not made yet, and has as many digits.
  version.whole = same ? version.file : FileOf(round, version, Whose::kServer, states_records_ ? Digest().Hex() : "");
  for (const std::string& name : broadcasts_) version.broadcasts.push_back({name, Sha256Of(version.broadcast(name))});
  return absl::OkStatus();
}

StatusOr<ServedVersion> ModelStore::Describe(int64_t round, ServerState state) const {
  ServedVersion stored;
  static_cast<ServerState&>(stored) = std::move(state);
  stored.row.round = round;
  RIVULET_RETURN_IF_ERROR(Announce(stored));
  stored.row = {run_id_,
                round,
                stored.digest.Hex(),
                JoinPath(relative_, NameOf(round)),
                stored.whole->bytes(),
                stored.model->layout().parameters()};
  return stored;
}

Status ModelStore::Write(const ServedVersion& version, std::string_view record) {
  const int64_t round = version.row.round;
  RIVULET_CHECK(record.empty() != states_records_, "round {} with the record '{}'", round, record);
  const auto whole = record.empty() ? version.whole : FileOf(round, version, Whose::kServer, record);
  const auto write = [&]() -> Status {
    RIVULET_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(fs_, PathOf(round)));
    for (const std::span<const std::byte> piece : whole->pieces()) RIVULET_RETURN_IF_ERROR(file->Append(piece));
    return file->Commit();
  };
  const Status status = write();
  // The rename may have succeeded and the folder's sync failed: then the file is there and no row will name it.
  if (!status.ok()) Remove(round).IgnoreError();
  return status;
}

// A run must resume from exactly the model in its rows, or the same seed would give other bits; each difference is
// refused, with a remedy.
StatusOr<ServedVersion> ModelStore::Load(const ModelRow& row, std::shared_ptr<const ModelLayout> layout,
                                         const ServerOptimizer& optimizer) {
  const auto refuse = [&](std::string_view why) {
    return FailedPrecondition("the model of round {} of run '{}' cannot be used, '{}': {}; restore it from a copy",
                              row.round, run_id_, PathOf(row.round), why);
  };
  if (row.path.empty()) {
    return FailedPrecondition("the model of round {} of run '{}' was removed; the run cannot resume from it", row.round,
                              run_id_);
  }
  StatusOr<std::string> bytes = fs_.ReadAll(PathOf(row.round));
  if (!bytes.ok()) return refuse(Message(bytes.status()));
  StatusOr<ServerState> state = ReadServerState(std::move(layout), *bytes);
  if (!state.ok()) return refuse(Message(state.status()));
  ServedVersion stored;
  static_cast<ServerState&>(stored) = *std::move(state);
  if (stored.digest.Hex() != row.digest) {
    return refuse(fmt::format("its digest is {} and the history has {}", stored.digest.Hex(), row.digest));
  }
  if (const Status fits = CheckState(stored, optimizer); !fits.ok()) return refuse(Message(fits));
  stored.row = row;
  RIVULET_RETURN_IF_ERROR(Announce(stored));
  return stored;
}

Status ModelStore::CheckFiles(std::span<const ModelRow> rows) const {
  for (const ModelRow& row : rows) {
    if (!row.path.empty() && !fs_.Exists(PathOf(row.round))) {
      return FailedPrecondition("the model of round {} of run '{}' is missing: '{}'; restore it from a copy", row.round,
                                run_id_, PathOf(row.round));
    }
  }
  return absl::OkStatus();
}

// Only at the start of a process, when no commit is under way: then a file without a row was left by a crash between
// the two.
Status ModelStore::RemoveUnnamed(std::span<const ModelRow> rows) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs_.List(folder_));
  for (const std::string& name : names) {
    if (!IsModelFile(name)) continue;
    const bool named = std::any_of(rows.begin(), rows.end(),
                                   [&](const ModelRow& row) { return !row.path.empty() && NameOf(row.round) == name; });
    if (!named) RIVULET_RETURN_IF_ERROR(fs_.Remove(JoinPath(folder_, name)));
  }
  return absl::OkStatus();
}

// If folders cannot be locked, a backup starts again when a file is missing.
bool ModelStore::IsCopied(std::unique_ptr<FolderLock>& removal) const {
  StatusOr<std::unique_ptr<FolderLock>> lock = FolderLock::ToRemove(folder_);
  if (lock.ok()) removal = *std::move(lock);
  return absl::IsUnavailable(lock.status());
}

Status ModelStore::Remove(int64_t round) { return Has(round) ? fs_.Remove(PathOf(round)) : absl::OkStatus(); }

}  // namespace rivulet
