// Files and folders that only their owner can read, and atomic delivery of several of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/file_system.h"

namespace rivulet {

// A file system like `base` in which new files have mode 0600 and new folders 0700, whatever the umask. A file that
// replaces another has that mode too. Thread-safe like `base`, which must outlive it.
class PrivateFileSystem final : public FileSystem {
 public:
  explicit PrivateFileSystem(FileSystem& base) : base_(base) {}
  StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  Status CreateFolder(const std::string& folder) override;
  StatusOr<std::string> ReadAll(const std::string& path) override { return base_.ReadAll(path); }
  Status Rename(const std::string& from, const std::string& to) override { return base_.Rename(from, to); }
  Status SyncFolder(const std::string& folder) override { return base_.SyncFolder(folder); }
  Status Remove(const std::string& path) override { return base_.Remove(path); }
  StatusOr<std::vector<std::string>> List(const std::string& folder) override { return base_.List(folder); }
  bool Exists(const std::string& path) override { return base_.Exists(path); }

 private:
  FileSystem& base_;
};

// FAILED_PRECONDITION if users beyond its owner and group may read `path`, or its mode cannot be read.
Status CheckPrivate(const std::string& path);

// A file system error with a remedy, if the disk is full or the place is not writable. Other errors are
// unchanged.
Status WithMend(Status status);

struct DeliveredFile {
  std::string name;
  std::string bytes;
  bool executable = false;
};

// A delivery of one public file, or of a folder or an archive (.tar.gz) of private ones. It is made completely beside
// its place, under "PATH.SERIAL.part", and published by one rename, so no reader sees half of it. A crash leaves it
// under its serial number, so that a second call finishes or removes it.
class Delivery {
 public:
  enum class Form { kFile, kFolder, kArchive };
  Delivery(FileSystem& fs, std::string path, Form form);

  const std::string& path() const { return path_; }
  // Whether its place is taken, even by a dangling link.
  bool IsTaken() const;
  // ALREADY_EXISTS if its place is taken.
  Status CheckFree() const;
  // Writes and syncs the files; a failed call removes its own files. `files` is a single one for kFile. `top` is the
  // folder in an archive, `seconds` (since 1970 UTC) the time of its files.
  Status Stage(std::string_view serial, const std::vector<DeliveredFile>& files, std::string_view top, int64_t seconds);
  bool IsStaged(std::string_view serial) const;
  // FAILED_PRECONDITION: its place was taken meanwhile.
  Status Publish(std::string_view serial);
  // Removes all staged files for this path.
  Status RemoveStaged();

 private:
  std::string StagePath(std::string_view serial) const;
  Status Write(const std::string& path, const DeliveredFile& file, FileSystem& fs);

  FileSystem& fs_;
  mutable PrivateFileSystem private_;
  std::string path_;
  Form form_;
};

}  // namespace rivulet
