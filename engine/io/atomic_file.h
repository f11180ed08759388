// A file that appears under its name at once and complete, however large: written piece by piece to a temporary name
// beside it, synced, renamed. WriteFileAtomically (engine/base/file_system.h) is the same for bytes that are at hand.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/base/file_system.h"

namespace rivulet {

// Not thread-safe. Without Commit, or when it fails, nothing is left but what was there before.
class AtomicFile {
 public:
  static StatusOr<std::unique_ptr<AtomicFile>> Create(FileSystem& fs, const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  Status Append(std::string_view bytes);
  Status Append(std::span<const std::byte> bytes);
  uint64_t size() const { return size_; }  // bytes so far
  // Once, at the end: after OK the bytes survive a crash under the file's name.
  Status Commit();

 private:
  AtomicFile(FileSystem& fs, std::string path, std::string temporary, std::unique_ptr<WritableFile> file);
  FileSystem& fs_;
  const std::string path_, temporary_;
  std::unique_ptr<WritableFile> file_;  // null once committed or given up
  uint64_t size_ = 0;
};

}  // namespace rivulet
