// A file system with two faults: it can be full, or die. It counts durable operations; at the chosen one it loses all
// unsynced data, like a power cut, and kills the process.
#pragma once

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <set>

#include "engine/base/file_system.h"
#include "engine/base/mutex.h"
#include "tests/testing/forwarding_file_system.h"

namespace rivulet {

// Thread-safe if `at` is.
class FaultyFileSystem : public testing::ForwardingFileSystem {
 public:
  // Called before ("sync …") and after ("synced …") each durable operation. An error returned before is the operation's
  // result.
  std::function<Status(const std::string& point)> at = [](const std::string&) { return absl::OkStatus(); };

  // Simulates a power cut: discards unsynced file contents, renames in unsynced folders, and folders that their parent
  // does not record yet, with all contents.
  void LoseUnsynced() {
    MutexLock lock(mutex_);
    for (const auto& [to, from] : unsynced_renames_) std::filesystem::rename(to, from);
    for (const std::string& path : unsynced_files_) {
      if (std::filesystem::exists(path)) std::filesystem::resize_file(path, 0);
    }
    for (const std::string& folder : unsynced_folders_) std::filesystem::remove_all(folder);
  }

  StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    RIVULET_RETURN_IF_ERROR(at("create " + path));
    RIVULET_ASSIGN_OR_RETURN(auto file, base_.Create(path));
    Note([&] { unsynced_files_.insert(path); });
    return std::make_unique<File>(*this, path, std::move(file));
  }
  Status Rename(const std::string& from, const std::string& to) override {
    RIVULET_RETURN_IF_ERROR(at("rename " + from));
    const bool was_there = base_.Exists(to);
    RIVULET_RETURN_IF_ERROR(base_.Rename(from, to));
    Note([&] {
      if (!was_there) unsynced_renames_[to] = from;
    });
    return at("renamed " + to);
  }
  Status SyncFolder(const std::string& folder) override {
    RIVULET_RETURN_IF_ERROR(at("sync-folder " + folder));
    RIVULET_RETURN_IF_ERROR(base_.SyncFolder(folder));
    Note([&] {
      std::erase_if(unsynced_renames_, [&](const auto& rename) { return FolderOf(rename.first) == folder; });
      std::erase_if(unsynced_folders_, [&](const std::string& made) { return FolderOf(made) == folder; });
    });
    return at("synced-folder " + folder);
  }
  Status CreateFolder(const std::string& folder) override {
    RIVULET_RETURN_IF_ERROR(at("create-folder " + folder));
    RIVULET_RETURN_IF_ERROR(base_.CreateFolder(folder));
    Note([&] { unsynced_folders_.insert(folder); });
    return at("created-folder " + folder);
  }
  Status Remove(const std::string& path) override {
    RIVULET_RETURN_IF_ERROR(at("remove " + path));
    Note([&] { unsynced_renames_.erase(path); });
    return base_.Remove(path);
  }

 private:
  template <typename Change>
  void Note(const Change& change) {
    MutexLock lock(mutex_);
    change();
  }
  class File : public WritableFile {
   public:
    File(FaultyFileSystem& fs, std::string path, std::unique_ptr<WritableFile> base)
        : fs_(fs), path_(std::move(path)), base_(std::move(base)) {}
    Status Append(std::span<const std::byte> bytes) override {
      RIVULET_RETURN_IF_ERROR(fs_.at("write " + path_));
      return base_->Append(bytes);
    }
    Status Sync() override {
      RIVULET_RETURN_IF_ERROR(fs_.at("sync " + path_));
      RIVULET_RETURN_IF_ERROR(base_->Sync());
      fs_.Note([&] { fs_.unsynced_files_.erase(path_); });
      return fs_.at("synced " + path_);
    }
    Status Close() override { return base_->Close(); }

   private:
    FaultyFileSystem& fs_;
    const std::string path_;
    const std::unique_ptr<WritableFile> base_;
  };

  Mutex mutex_;  // guards:
  std::set<std::string> unsynced_files_, unsynced_folders_;
  std::map<std::string, std::string> unsynced_renames_;  // to → from
};

}  // namespace rivulet
