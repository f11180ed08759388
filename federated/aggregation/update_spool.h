// Updates on disk, for rules that need all of a version at once. The spool is an unnamed file in the folder for
// temporary files (TMPDIR, else /var/tmp), so it disappears with its last owner, however the process ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/base/status.h"

namespace rivulet {

// One writer; reads may come from any thread.
class UpdateSpool {
 public:
  // RESOURCE_EXHAUSTED: the disk is full, or there are too many open files. INTERNAL: the folder cannot be written to.
  static StatusOr<std::shared_ptr<UpdateSpool>> Create();
  ~UpdateSpool();
  UpdateSpool(const UpdateSpool&) = delete;
  UpdateSpool& operator=(const UpdateSpool&) = delete;

  // Appends. RESOURCE_EXHAUSTED: the disk is full; earlier contents remain.
  Status Append(std::span<const std::byte> bytes);
  int64_t size() const { return size_; }
  void Truncate(int64_t size) { size_ = size; }  // later appends overwrite the rest
  // A path for another process of this user; valid while this process has the spool open.
  std::string path() const;
  // INTERNAL: the disk cannot return the data.
  Status Read(int64_t offset, std::span<std::byte> bytes) const;

 private:
  explicit UpdateSpool(int fd) : fd_(fd) {}
  const int fd_;
  int64_t size_ = 0;
};

}  // namespace rivulet
