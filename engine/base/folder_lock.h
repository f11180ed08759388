// The lock of a folder: one process removes files there, and others read them.
#pragma once

#include <memory>
#include <string>

#include "engine/base/status.h"

namespace rivulet {

// A reader holds it shared, so that the files it finds stay; a process that removes files holds it alone, for the
// moment of removing. It is taken on the folder itself, so that a reader needs no permission to write there. The system
// releases it with its process.
class FolderLock {
 public:
  // Waits while somebody removes files.
  static StatusOr<std::unique_ptr<FolderLock>> ToRead(const std::string& folder);
  // UNAVAILABLE, at once, while another holds it, be it in this process; UNIMPLEMENTED where the folder lies on a file
  // system that locks no folders, as some network file systems.
  static StatusOr<std::unique_ptr<FolderLock>> ToRemove(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  static StatusOr<std::unique_ptr<FolderLock>> Take(const std::string& folder, int operation);
  int fd_;
};

}  // namespace rivulet
