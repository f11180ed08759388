// The state of a file that is written in place, after a power failure: that of its last sync. Stores only pages changed
// since then, so that a sync of a large file needs no copy.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>

namespace rivulet::testing {

class SyncedFile {
 public:
  // Marks the present state of the file as synced.
  explicit SyncedFile(std::string path)
      : path_(std::move(path)), bytes_(static_cast<int64_t>(std::filesystem::file_size(path_))) {}

  // Call before these bytes are written or truncated.
  void BeforeChange(int64_t from, int64_t to) {
    std::ifstream file;
    for (int64_t page = from / kPageBytes; page * kPageBytes < std::min(to, bytes_); ++page) {
      const auto [before, fresh] = before_.try_emplace(page);
      if (!fresh) continue;
      if (!file.is_open()) file.open(path_, std::ios::binary);
      std::string& bytes = before->second;
      bytes.resize(static_cast<size_t>(std::min(kPageBytes, bytes_ - page * kPageBytes)));
      file.seekg(page * kPageBytes);
      file.read(bytes.data(), std::ssize(bytes));
    }
  }

  // Discards unsynced changes.
  void Restore() const {
    std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
    for (const auto& [page, bytes] : before_) {
      file.seekp(page * kPageBytes);
      file.write(bytes.data(), std::ssize(bytes));
    }
    file.close();
    std::filesystem::resize_file(path_, static_cast<uintmax_t>(bytes_));
  }

 private:
  static constexpr int64_t kPageBytes = 4096;
  std::string path_;
  int64_t bytes_;
  std::map<int64_t, std::string> before_;  // previous contents by page
};

}  // namespace rivulet::testing
