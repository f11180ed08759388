// The file operations that durability depends on, behind an interface, so that tests can lose unsynced bytes, fill the
// disk or stop the process between two of them. Reading large data goes through memory maps (engine/io/mapped_file.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace rivulet {

// A file being written. Not thread-safe. Destroying it without Close discards what was not yet written.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual Status Append(std::span<const std::byte> bytes) = 0;
  Status Append(std::string_view bytes) { return Append(std::as_bytes(std::span(bytes.data(), bytes.size()))); }
  virtual Status Sync() = 0;   // fdatasync
  virtual Status Close() = 0;  // flushes; does not sync
};

// Thread-safe. Errors name the path and say what the system said: NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED (no
// space left), ALREADY_EXISTS, UNAVAILABLE (a lock held by another process), INTERNAL otherwise.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  static FileSystem& Default();  // POSIX

  virtual StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;  // truncates
  virtual StatusOr<std::string> ReadAll(const std::string& path) = 0;
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  virtual Status SyncFolder(const std::string& folder) = 0;
  virtual Status Remove(const std::string& path) = 0;
  // One folder, in a parent that is there. ALREADY_EXISTS: it is there, or a link to one.
  virtual Status CreateFolder(const std::string& folder) = 0;
  virtual StatusOr<std::vector<std::string>> List(const std::string& folder) = 0;  // names, sorted
  virtual bool Exists(const std::string& path) = 0;

  // The folder and its parents, where they are not there. After OK each that was made is in its parent for good: what
  // is synced in it later cannot be lost with the folder.
  Status CreateFolders(const std::string& folder);
};

// Temporary file beside `path`, sync, rename over `path`, sync of the folder: after OK the bytes survive a crash, after
// an error the old file is unchanged and no temporary is left.
Status WriteFileAtomically(FileSystem& fs, const std::string& path, std::string_view bytes);

// An advisory lock (flock) that the system drops with its process.
class FileLock {
 public:
  // UNAVAILABLE when another process, or another FileLock here, holds it.
  static StatusOr<std::unique_ptr<FileLock>> Acquire(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_;
};

std::string JoinPath(std::string_view folder, std::string_view name);  // an absolute `name` stands alone
std::string FolderOf(std::string_view path);                           // "." when there is none

}  // namespace rivulet
