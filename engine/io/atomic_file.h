// A file that is written atomically, however large: piece by piece to a temporary name beside it, then synced and
// renamed. WriteFileAtomically (engine/base/file_system.h) does the same for bytes in memory. Both follow links, and
// write in place if the target is no regular file (engine/base/write_target.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/file_system.h"

namespace rivulet {

// Not thread-safe. Without Commit, or when it fails, nothing is left but what was there before.
class AtomicFile {
 public:
  static StatusOr<std::unique_ptr<AtomicFile>> Create(FileSystem& fs, const std::string& path);
  // Of mode 0600 from its first instant, as far as the file system has modes; not what is no regular file.
  static StatusOr<std::unique_ptr<AtomicFile>> CreatePrivate(FileSystem& fs, const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  Status Append(std::string_view bytes);
  Status Append(std::span<const std::byte> bytes);
  uint64_t size() const { return size_; }  // bytes so far
  // Syncs and closes, so that Commit has only the rename left: of a set of files all can be complete before the first
  // of them appears. Optional.
  Status Finish();
  // Once, at the end: after OK the bytes survive a crash under the file's name.
  Status Commit();
  // The same without waiting for the disk: after OK every later process has the file whole, but one after a power
  // failure may find the old one, none, or one whose bytes are not all there. For what is cheap to make again, where a
  // reader can tell (engine/io/sealed_file.h).
  Status CommitUnsynced();

 private:
  enum class Readers : uint8_t { kAsTheUmaskSays, kItsOwner };
  static StatusOr<std::unique_ptr<AtomicFile>> CreateFor(Readers readers, FileSystem& fs, const std::string& path);
  AtomicFile(FileSystem& fs, std::string path, std::string temporary, std::unique_ptr<WritableFile> file);
  FileSystem& fs_;
  const std::string path_, temporary_;  // no temporary: written into path_, which is no regular file
  std::unique_ptr<WritableFile> file_;  // null once committed
  bool finished_ = false;
  uint64_t size_ = 0;
};

// Files of one folder, by name, which is made where it is missing: they appear complete and together, or nothing is
// changed and a folder that was made goes again. (Between two renames a crash may still come.)
struct NamedBytes {
  std::string name;
  std::string_view bytes;
};
Status WriteFolderAtomically(FileSystem& fs, const std::string& folder, std::span<const NamedBytes> files);

}  // namespace rivulet
