// A newly created folder that is removed again if its files cannot be written.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/base/status.h"

namespace rivulet {

// Not thread-safe. Existing folders and folders that are not empty are never removed.
class NewFolder {
 public:
  // Creates `path` and its parents if they are missing. Errors as FileSystem::CreateFolders.
  static StatusOr<std::unique_ptr<NewFolder>> Create(FileSystem& fs, const std::string& path);
  ~NewFolder();  // removes the folders that it created, unless Keep was called
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  void Keep() { made_.clear(); }

 private:
  NewFolder() = default;
  std::vector<std::string> made_;  // innermost first
};

}  // namespace rivulet
