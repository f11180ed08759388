// What a power cut leaves of a file that is written in place: what it was at its last sync. Only what was changed since
// is kept, page by page, so that a sync costs no copy of a file that has grown large.
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
  // Of the file as it is now: it is synced.
  explicit SyncedFile(std::string path)
      : path_(std::move(path)), bytes_(static_cast<int64_t>(std::filesystem::file_size(path_))) {}

  // These bytes are about to be written, or cut off.
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

  // What was not synced is lost.
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
  std::map<int64_t, std::string> before_;  // by page, as it was
};

}  // namespace rivulet::testing
