// The disk of a machine whose process may die at any instant: unsynced data is lost in a power failure, and kept if
// only the process dies. Files go through FaultyFileSystem, and SQLite's through a separate VFS.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "tests/coordinator/faulty_file_system.h"
#include "tests/coordinator/faulty_sqlite.h"
#include "tests/system/synced_file.h"
#include "tests/testing/temp_folder.h"

namespace rivulet::testing {

class Disk {
 public:
  // Files that are reported as synced but are in a cache that a power failure empties.
  enum class Lies : uint8_t { kNever, kOfHistories, kOfReports };
  // `slow` is called in each sync and may take (virtual) time. Only one disk of a program has histories.
  Disk(bool has_histories, std::function<void()> slow, Lies lies = Lies::kNever)
      : slow_(std::move(slow)), has_histories_(has_histories), lies_(lies) {
    if (has_histories) {
      InstallFaultySqlite([this](const std::string& point) { return AtSqlite(point); });
      WatchSqliteWrites([this](const std::string& path, int64_t from, int64_t to) {
        if (const auto file = synced_.find(path); file != synced_.end()) file->second.BeforeChange(from, to);
      });
    }
    Replace();
  }
  ~Disk() {
    if (!has_histories_) return;
    InstallFaultySqlite([](const std::string&) { return true; });
    WatchSqliteWrites(nullptr);
  }

  const std::string& folder() const { return folder_.path(); }
  std::string File(const std::string& name) const { return folder_.File(name); }
  // For the process that runs now.
  FileSystem& files() { return *files_; }

  // The process is dead: later actions of its threads do not reach the disk.
  void Cut() { cut_ = true; }
  // Cuts at the `operation`-th point from now, before or after a durable operation on files(), and calls `dies`.
  void CutAt(int64_t operation, std::function<void()> dies) {
    until_death_ = operation;
    dies_ = std::move(dies);
  }
  bool is_cut() const { return cut_; }
  // Call when the threads have ended.
  void Recover(bool power_was_lost) {
    if (power_was_lost) {
      files_->LoseUnsynced();
      for (const auto& [path, file] : synced_) {
        if (std::filesystem::exists(path)) file.Restore();
      }
      for (const std::string& path : cached_) {
        if (std::filesystem::exists(path)) std::filesystem::resize_file(path, 0);
      }
    }
    cut_ = false;
    Replace();
  }

 private:
  void Replace() {
    synced_.clear();
    if (has_histories_) {
      for (const auto& entry : std::filesystem::directory_iterator(folder())) {
        const std::string path = entry.path().string();
        if (path.ends_with(".sqlite") || path.ends_with("-wal")) synced_.emplace(path, path);
      }
    }
    files_ = std::make_unique<FaultyFileSystem>();
    files_->at = [this](const std::string& point) -> Status {
      if (until_death_ > 0 && --until_death_ == 0) {
        Cut();
        dies_();
      }
      if (cut_) return Internal("the machine is off");
      if (lies_ == Lies::kOfReports && point.starts_with("renamed ") && point.find("/reports/") != point.npos) {
        cached_.insert(point.substr(point.find(' ') + 1));
      }
      if (point.starts_with("sync")) slow_();
      return cut_ ? Internal("the machine is off") : absl::OkStatus();
    };
  }
  // After a power failure the state is that of the last sync.
  bool AtSqlite(const std::string& point) {
    if (cut_) return false;
    const size_t space = point.find(' ');
    if (point.starts_with("sqlite-sync ")) slow_();
    if (cut_) return false;
    if (point.starts_with("sqlite-synced ") && lies_ != Lies::kOfHistories) {
      const std::string path = point.substr(space + 1);
      synced_.insert_or_assign(path, SyncedFile(path));
    }
    return true;
  }

  const TempFolder folder_{TempFolder::Place::kMemory};
  const std::function<void()> slow_;
  const bool has_histories_;
  const Lies lies_;
  bool cut_ = false;
  int64_t until_death_ = 0;
  std::function<void()> dies_;
  std::unique_ptr<FaultyFileSystem> files_;
  std::map<std::string, SyncedFile> synced_;  // by path
  std::set<std::string> cached_;              // paths of falsely synced files
};

}  // namespace rivulet::testing
