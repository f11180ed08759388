// The real file system behind an interface that a test takes apart: it overrides what shall fail and passes the rest
// on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/file_system.h"

namespace rivulet::testing {

class ForwardingFileSystem : public FileSystem {
 public:
  StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override { return base_.Create(path); }
  StatusOr<std::string> ReadAll(const std::string& path) override { return base_.ReadAll(path); }
  Status Rename(const std::string& from, const std::string& to) override { return base_.Rename(from, to); }
  Status SyncFolder(const std::string& folder) override { return base_.SyncFolder(folder); }
  Status Remove(const std::string& path) override { return base_.Remove(path); }
  Status CreateFolder(const std::string& folder) override { return base_.CreateFolder(folder); }
  StatusOr<std::vector<std::string>> List(const std::string& folder) override { return base_.List(folder); }
  bool Exists(const std::string& path) override { return base_.Exists(path); }

 protected:
  FileSystem& base_ = FileSystem::Default();
};

}  // namespace rivulet::testing
