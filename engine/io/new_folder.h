// A newly made folder that is removed again if its files cannot be written.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/base/status.h"

namespace rivulet {

// Not thread-safe. What was there before is never removed, nor is a folder that something lies in.
class NewFolder {
 public:
  // Makes `path` and its parents where they are missing. Errors as FileSystem::CreateFolders.
  static StatusOr<std::unique_ptr<NewFolder>> Create(FileSystem& fs, const std::string& path);
  ~NewFolder();  // removes those that it made, unless Keep was called
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  void Keep() { made_.clear(); }

 private:
  NewFolder() = default;
  std::vector<std::string> made_;  // the innermost first
};

}  // namespace rivulet
