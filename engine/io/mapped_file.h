// A regular file mapped for reading. It keeps no descriptor open, so the number of mapped files may exceed the
// process's limit of open files. Bytes are copied out under a guard: if another program truncates the file, the first
// access beyond its new end raises SIGBUS. The guard turns that into `false` instead of ending the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/base/status.h"

namespace rivulet {

class MappedFile {
 public:
  // Never blocks. NOT_FOUND: no such file. PERMISSION_DENIED. INVALID_ARGUMENT: a folder, a pipe (FIFO), a socket or a
  // device. The messages do not contain the path; the caller adds it.
  static StatusOr<std::unique_ptr<MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }                                 // at the time of opening
  int64_t modified_nanoseconds() const { return modified_nanoseconds_; }  // at the time of opening, since 1970
  // Returns the present size; a different value means that the file changed. size() if another file has its name now.
  uint64_t CurrentSize() const;

  // Copies `out.size()` bytes from `offset` on; the range must be within size(). Thread-safe. False: the file shrank or
  // the disk failed; `out` is then undefined.
  [[nodiscard]] bool Copy(uint64_t offset, std::span<std::byte> out) const;
  // The same for adjacent ranges with one guard: `first` from `offset` on, then `second`, then `third`.
  [[nodiscard]] bool Copy(uint64_t offset, std::span<std::byte> first, std::span<std::byte> second,
                          std::span<std::byte> third) const;

  // Returns the mapped bytes; null if size() is 0. Reads have no guard: if another program truncates the file, a read
  // beyond its new end terminates this process.
  const std::byte* unguarded() const { return data_; }

 private:
  explicit MappedFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
  uint64_t device_ = 0, inode_ = 0;
  const std::byte* data_ = nullptr;
  uint64_t size_ = 0;
  int64_t modified_nanoseconds_ = 0;
};

}  // namespace rivulet
