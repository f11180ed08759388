// Files of one run: DB.models/<run_id>/round-000001.safetensors, its plan, and a lock that marks the owning process.
// The folder is beside the database file itself, after links: two names of one history share folder and lock, and a
// copy has a separate folder. A file's name follows from its round, and nothing else in the folder is ever touched.
// Paths in a history's rows only show that a file exists, never its place.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/history/rows.h"
#include "engine/base/file_system.h"
#include "engine/base/folder_lock.h"
#include "engine/base/status.h"
#include "federated/download/download.h"
#include "federated/server_optimizers/server_optimizer.h"
#include "federated/server_state/server_state.h"
#include "federated/weights/model.h"

namespace rivulet {

// A version ready to be served: the server's state, its files, its row.
struct ServedVersion : ServerState {
  // The model that clients start from, and its digest: the version's model, or its decoded form if the download codec
  // rounds; and the bytes of the download.
  std::shared_ptr<const Model> sent;
  Digest sent_digest;
  std::shared_ptr<const std::string> encoded;  // null: `file`
  std::shared_ptr<const ModelFile> file;       // of the model alone, in its own memory
  std::shared_ptr<const ModelFile> whole;      // as written: with the server's own state
  // A part that clients read beside the model, and the digest of its bytes: float32 in wire order, in `flats`.
  struct Broadcast {
    std::string name;  // "c": the flat "server/c"
    Digest digest;
  };
  std::vector<Broadcast> broadcasts;
  ModelRow row;
};

// Store of one coordinator's models; not thread-safe except where noted. While it lives, it alone owns the run.
class ModelStore {
 public:
  enum class Folder { kNew, kStored };
  // Makes a new run's folder, and takes the run's lock. `db_path` is History::real_path. UNAVAILABLE: another process
  // owns the run. DATA_LOSS: the id cannot be a folder's name. FAILED_PRECONDITION: a stored run's folder is missing
  // (the history was copied or renamed without it). Other errors are those of `fs` (a read-only folder, a full disk).
  // `broadcasts`: names of the parts that clients read beside the model, all kept by its server. `metadata`: entries
  // for each file besides run, round and the model's own.
  static StatusOr<std::unique_ptr<ModelStore>> Open(FileSystem& fs, const std::string& db_path,
                                                    const std::string& run_id, Folder folder,
                                                    std::vector<std::string> broadcasts = {},
                                                    std::map<std::string, std::string> metadata = {});

  // From now on each version's file states the digest of its record, as passed to Write.
  void StateRecords() { states_records_ = true; }

  // Sets the codec of versions from now on; null: none. Its random numbers come from the seed.
  void SendBy(std::unique_ptr<const Download> download, uint64_t seed);

  // Stores the plan for the run's clients, also after it is resumed; after OK it survives a crash.
  Status WritePlan(std::string_view bytes);
  // The stored plan, for any process; nullopt: none is stored. DATA_LOSS: its digest is not `digest`, given in
  // hexadecimal digits.
  static StatusOr<std::optional<std::string>> ReadPlan(FileSystem& fs, const std::string& db_path,
                                                       const std::string& run_id, const std::string& digest);

  // A version with its files and row, without writing anything; callable on any thread. FAILED_PRECONDITION: the codec
  // of SendBy cannot encode it.
  StatusOr<ServedVersion> Describe(int64_t round, ServerState state) const;
  // Writes the version's file, with the model and the server's own state; after OK it survives a crash, after an error
  // nothing of it is left. `record`: the digest of its record, in hexadecimal digits, after StateRecords.
  Status Write(const ServedVersion& version, std::string_view record = "");
  // FAILED_PRECONDITION: the row's file is missing, damaged, has another model than the row, or lacks the state that
  // `optimizer` needs; or as in Describe.
  StatusOr<ServedVersion> Load(const ModelRow& row, std::shared_ptr<const ModelLayout> layout,
                               const ServerOptimizer& optimizer);
  // FAILED_PRECONDITION: the file of a row with a path is missing.
  Status CheckFiles(std::span<const ModelRow> rows) const;
  // Removes files that a crash has left: model files, complete or not, with no row that has their path.
  Status RemoveUnnamed(std::span<const ModelRow> rows);
  // Whether `name` is that of a version's file, or of one that is being written; all others are foreign.
  static bool IsModelFile(std::string_view name);
  Status Remove(int64_t round);
  // Whether a backup copies the named files now, so that none may be removed; else `removal` holds a lock for removing.
  bool IsCopied(std::unique_ptr<FolderLock>& removal) const;
  bool Has(int64_t round) const { return fs_.Exists(PathOf(round)); }
  const std::string& folder() const { return folder_; }

 private:
  ModelStore(FileSystem& fs, const std::string& db_path, std::string run_id, std::vector<std::string> broadcasts,
             std::map<std::string, std::string> metadata);
  std::string PathOf(int64_t round) const;
  enum class Whose : uint8_t { kClients, kServer };  // the model alone, or with the server's own state
  std::shared_ptr<const ModelFile> FileOf(int64_t round, const ServerState& state, Whose whose,
                                          std::string_view record = "") const;
  Status Announce(ServedVersion& version) const;  // sets its files and broadcasts from its state

  FileSystem& fs_;
  const std::string relative_;  // this run's folder, relative to the database's
  const std::string folder_;
  const std::string run_id_;
  const std::vector<std::string> broadcasts_;
  const std::map<std::string, std::string> metadata_;
  std::unique_ptr<const Download> download_;
  uint64_t seed_ = 0;
  bool states_records_ = false;
  std::unique_ptr<FileLock> lock_;
};

}  // namespace rivulet
