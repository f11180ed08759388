// Files of pointed versions: FILE.models/pointed/ beside a history, with each version and its plan as links or copies.
// No run owns the folder, so none removes from it (run.keep_models removes from a run's own).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "serving/pointed_names.h"

namespace rivulet {

// Folder of pointed versions. Thread-safe.
class PointedFiles {
 public:
  // `history` is History::real_path.
  PointedFiles(FileSystem& fs, const std::string& history);

  std::string VersionPath(const PointedVersion& version) const;
  std::string PlanPath(const std::string& plan_digest) const;
  // The paths of both: in this folder, or, in a history that was copied without it, such as a backup, in their run's.
  struct Found {
    std::string version, plan;
  };
  Found Find(const PointedVersion& version) const;
  // Links both files into the folder, else copies them; after OK both survive a crash. Existing files are unchanged.
  Status Bring(const PointedVersion& version, const std::string& version_path, const std::string& plan_path);
  // Removes every version and plan that is not in `kept`.
  Status KeepOnly(const std::vector<PointedVersion>& kept);
  // Excludes other processes that add or remove files. Waits up to 20 s; then UNAVAILABLE.
  StatusOr<std::unique_ptr<FileLock>> Lock();
  StatusOr<std::unique_ptr<FileLock>> TryLock();  // the same without waiting
  const std::string& folder() const { return folder_; }

 private:
  Status BringOne(const std::string& from, const std::string& to);
  FileSystem& fs_;
  const std::string folder_;
};

}  // namespace rivulet
