// A file of any size that is written atomically. It is written piece by piece to a temporary file beside it, synced and
// renamed. WriteFileAtomically (engine/base/file_system.h) does the same for bytes in memory. Both follow links, and
// write in place if the target is not a regular file (engine/base/write_target.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/file_system.h"

namespace rivulet {

// Not thread-safe. Without a successful Commit, the previous state stays and no temporary file is left.
class AtomicFile {
 public:
  static StatusOr<std::unique_ptr<AtomicFile>> Create(FileSystem& fs, const std::string& path);
  // Creates it with mode 0600, if the file system has modes; does not apply to targets that are not regular files.
  static StatusOr<std::unique_ptr<AtomicFile>> CreatePrivate(FileSystem& fs, const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  Status Append(std::string_view bytes);
  Status Append(std::span<const std::byte> bytes);
  uint64_t size() const { return size_; }  // bytes written so far
  // Syncs and closes, so that Commit only has to rename. So all files of a set can be complete before the first one
  // appears. Optional.
  Status Finish();
  // Call once, at the end. After OK the bytes under the file's name survive a crash.
  Status Commit();
  // The same without waiting for the disk. After OK every later process sees the complete file; after a power failure
  // it may be the old file, missing or incomplete. For data that is cheap to recreate, and whose readers can detect
  // damage (engine/io/sealed_file.h).
  Status CommitUnsynced();

 private:
  enum class Readers : uint8_t { kAsTheUmaskSays, kItsOwner };
  static StatusOr<std::unique_ptr<AtomicFile>> CreateFor(Readers readers, FileSystem& fs, const std::string& path);
  AtomicFile(FileSystem& fs, std::string path, std::string temporary, std::unique_ptr<WritableFile> file);
  FileSystem& fs_;
  const std::string path_, temporary_;  // empty temporary: writes directly to path_, which is not a regular file
  std::unique_ptr<WritableFile> file_;  // null after Commit
  bool finished_ = false;
  uint64_t size_ = 0;
};

// Writes named files to one folder, created if missing. Either all are published complete, or nothing is changed and a
// created folder is removed. (A crash between two renames is still possible.)
struct NamedBytes {
  std::string name;
  std::string_view bytes;
};
Status WriteFolderAtomically(FileSystem& fs, const std::string& folder, std::span<const NamedBytes> files);

}  // namespace rivulet
