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

// A version, ready to be served: what the server goes on with, its files, its row.
struct ServedVersion : ServerState {
  // What clients start from, and its digest: the model, or what they make of it where it travels by a codec that
  // rounds; and then the bytes that it travels as.
  std::shared_ptr<const Model> sent;
  Digest sent_digest;
  std::shared_ptr<const std::string> encoded;  // null: `file`
  std::shared_ptr<const ModelFile> file;       // of the model alone, in its own memory
  std::shared_ptr<const ModelFile> whole;      // as it is written: with what the server keeps
  // What clients read of it beside the model, and the digest of its bytes: float32 in wire order, in `flats`.
  struct Broadcast {
    std::string name;  // "c": the flat "server/c"
    Digest digest;
  };
  std::vector<Broadcast> broadcasts;
  ModelRow row;
};

// Owned by one coordinator; not thread-safe but where it says so. While it lives, no other process can own the run.
class ModelStore {
 public:
  enum class Folder { kNew, kStored };
  // Makes the folder, of a new run, and takes the run's lock. `db_path` is History::real_path. UNAVAILABLE: another
  // process owns the run. DATA_LOSS: an id that is no folder's name. FAILED_PRECONDITION: a stored run's folder is not
  // there (the history was copied or renamed without it). Otherwise as `fs` says (a read-only folder, a full disk).
  // `broadcasts`: names of what clients read of each version beside the model, all kept by its server. `metadata`: what
  // each file says beside the run, the round and its model's own.
  static StatusOr<std::unique_ptr<ModelStore>> Open(FileSystem& fs, const std::string& db_path,
                                                    const std::string& run_id, Folder folder,
                                                    std::vector<std::string> broadcasts = {},
                                                    std::map<std::string, std::string> metadata = {});

  // From now on each version's file states the digest of its record, which Write is given.
  void StateRecords() { states_records_ = true; }

  // From now on versions travel so; null: as they are. Whatever of a codec is drawn is drawn by the seed.
  void SendBy(std::unique_ptr<const Download> download, uint64_t seed);

  // What every client of the run gets, and gets again when it is resumed; survives a crash after OK.
  Status WritePlan(std::string_view bytes);
  // The bytes that a run's folder keeps, from any process; nothing: it keeps none. DATA_LOSS: they are not those of
  // `digest`, in hexadecimal digits.
  static StatusOr<std::optional<std::string>> ReadPlan(FileSystem& fs, const std::string& db_path,
                                                       const std::string& run_id, const std::string& digest);

  // What a version is in its file and its row, without writing anything; from any thread. FAILED_PRECONDITION: it
  // cannot travel as SendBy says.
  StatusOr<ServedVersion> Describe(int64_t round, ServerState state) const;
  // Writes its file, the model and what the server keeps beside it, so that it survives a crash; after an error nothing
  // of it is left. `record`: the digest of its record, in hexadecimal digits, after StateRecords.
  Status Write(const ServedVersion& version, std::string_view record = "");
  // FAILED_PRECONDITION: the row's file is missing, damaged, another model than the row says, without what `optimizer`
  // goes on with, or as in Describe.
  StatusOr<ServedVersion> Load(const ModelRow& row, std::shared_ptr<const ModelLayout> layout,
                               const ServerOptimizer& optimizer);
  // FAILED_PRECONDITION: the file of a row with a path is not there.
  Status CheckFiles(std::span<const ModelRow> rows) const;
  // Removes what a crash has left: model files, and parts of them, of which no row has a path.
  Status RemoveUnnamed(std::span<const ModelRow> rows);
  // Whether `name` is that of a version's file, or of one that is being written; anything else is somebody else's.
  static bool IsModelFile(std::string_view name);
  Status Remove(int64_t round);
  // Whether no file may be removed now, since a backup copies what the history names; otherwise held while files are.
  bool IsCopied(std::unique_ptr<FolderLock>& removal) const;
  bool Has(int64_t round) const { return fs_.Exists(PathOf(round)); }
  const std::string& folder() const { return folder_; }

 private:
  ModelStore(FileSystem& fs, const std::string& db_path, std::string run_id, std::vector<std::string> broadcasts,
             std::map<std::string, std::string> metadata);
  std::string PathOf(int64_t round) const;
  enum class Whose : uint8_t { kClients, kServer };  // the model alone, or with what the server keeps
  std::shared_ptr<const ModelFile> FileOf(int64_t round, const ServerState& state, Whose whose,
                                          std::string_view record = "") const;
  Status Announce(ServedVersion& version) const;  // its files and broadcasts, of its state

  FileSystem& fs_;
  const std::string relative_;  // this run's folder, from the database's
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
