// A folder of a test's own, and files in it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "engine/base/check.h"

namespace rivulet::testing {

// Made empty under a name that no other test has; removed with all that is in it at the end of its scope.
class TempFolder {
 public:
  // kMemory: where the system has a folder in memory, there. For tests that sync thousands of times and whose crashes
  // are played, so that no disk has to be waited for.
  enum class Place { kDisk, kMemory };
  explicit TempFolder(Place place = Place::kDisk) {
    const bool memory = place == Place::kMemory && access("/dev/shm", W_OK) == 0;
    path_ = std::filesystem::path(memory ? "/dev/shm" : ::testing::TempDir()) / "rivulet-test-XXXXXX";
    RIVULET_CHECK(mkdtemp(path_.data()) != nullptr, "no folder '{}'", path_);
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  // Path of what is called `name` here, there or not.
  std::string File(std::string_view name) const { return path_ + "/" + std::string(name); }
  // Writes the file and gives its path.
  std::string Write(std::string_view name, std::string_view content) const {
    std::ofstream(File(name), std::ios::binary) << content;
    return File(name);
  }
  // `message` without this folder in front, so that a test can state the whole sentence.
  std::string Relative(std::string_view message) const {
    return std::string(message.starts_with(path_ + "/") ? message.substr(path_.size() + 1) : message);
  }

 private:
  std::string path_;
};

// The bytes of a file; empty if there is none.
inline std::string ContentOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A fixture with a folder for each test.
class FolderTest : public ::testing::Test {
 protected:
  explicit FolderTest(TempFolder::Place place = TempFolder::Place::kDisk) : folder_(place) {}
  std::string Path(std::string_view name) const { return folder_.File(name); }
  std::string Write(std::string_view name, std::string_view content) const { return folder_.Write(name, content); }

  const TempFolder folder_;
};

}  // namespace rivulet::testing
