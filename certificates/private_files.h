// Files and folders that only their owner can read, and atomic delivery of several of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/file_system.h"

namespace rivulet {

// `base`, whose new files have the mode 0600 and whose new folders 0700, whatever the umask. A file that is made anew
// over an old one has that mode too. Thread-safe as `base`, which must outlive it.
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

// FAILED_PRECONDITION when others than its owner and its group may read `path`, or nobody can tell.
Status CheckPrivate(const std::string& path);

// An error of the file system with what to do about it: of a full disk, of what may not be written. Others are
// unchanged.
Status WithMend(Status status);

struct DeliveredFile {
  std::string name;
  std::string bytes;
  bool executable = false;
};

// What is handed to somebody: one public file, a folder or an archive (.tar.gz) of private ones. It is made whole
// beside its place, under "PATH.SERIAL.part", and is in its place with one rename: nobody ever meets half of it. What a
// crash leaves is known by its serial number, so that a second call finishes it or takes it away.
class Delivery {
 public:
  enum class Form { kFile, kFolder, kArchive };
  Delivery(FileSystem& fs, std::string path, Form form);

  const std::string& path() const { return path_; }
  // Something is in its place, be it a link that leads nowhere.
  bool IsTaken() const;
  // ALREADY_EXISTS when it is taken.
  Status CheckFree() const;
  // Synced when it returns; what it has written is taken away when it fails. `files` is one for a file. `top` is the
  // folder in an archive, `seconds` (since 1970 UTC) the time of its files.
  Status Stage(std::string_view serial, const std::vector<DeliveredFile>& files, std::string_view top, int64_t seconds);
  bool IsStaged(std::string_view serial) const;
  // FAILED_PRECONDITION: something took its place meanwhile.
  Status Publish(std::string_view serial);
  // Takes away all that is staged for this path.
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
