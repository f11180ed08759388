// The model files of one run: DB.models/<run_id>/round-000001.safetensors, and the lock that says whose run it is.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "coordinator/history/rows.h"
#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "federated/weights/model.h"

namespace rivulet {

// A model version, ready to be served: the model, its file, its row.
struct StoredModel {
  std::shared_ptr<const Model> model;
  std::shared_ptr<const ModelFile> file;  // of the model's own memory
  Digest digest;                          // model_digest
  ModelRow row;
};

// Owned by one coordinator; not thread-safe. While it lives, no other process can own the run.
class ModelStore {
 public:
  // Makes the folder and takes the run's lock. UNAVAILABLE: another process owns the run. Otherwise as `fs` says (a
  // read-only folder, a full disk).
  static StatusOr<std::unique_ptr<ModelStore>> Open(FileSystem& fs, const std::string& db_path,
                                                    const std::string& run_id);

  // Writes a version so that it survives a crash; after an error nothing of it is left. `digest` is the model's, so
  // that whoever made it hashes it once.
  StatusOr<StoredModel> Save(int64_t round, std::shared_ptr<const Model> model, const Digest& digest);
  // FAILED_PRECONDITION: the row's file is missing, damaged or another model than the row says.
  StatusOr<StoredModel> Load(const ModelRow& row, std::shared_ptr<const ModelLayout> layout);
  // FAILED_PRECONDITION: a row names a file that is not there.
  Status CheckFiles(std::span<const ModelRow> rows) const;
  // Removes what a crash has left: model files, and parts of them, that no row names.
  Status RemoveUnnamed(std::span<const ModelRow> rows);
  Status Remove(const ModelRow& row);
  const std::string& folder() const { return folder_; }

 private:
  ModelStore(FileSystem& fs, std::string db_folder, std::string relative, std::string run_id);
  std::string PathOf(const ModelRow& row) const { return JoinPath(db_folder_, row.path); }
  std::shared_ptr<const ModelFile> FileOf(int64_t round, std::shared_ptr<const Model> model,
                                          const Digest& digest) const;

  FileSystem& fs_;
  const std::string db_folder_;  // what paths in rows are relative to
  const std::string relative_;   // this run's folder in it
  const std::string folder_;
  const std::string run_id_;
  std::unique_ptr<FileLock> lock_;
};

}  // namespace rivulet
