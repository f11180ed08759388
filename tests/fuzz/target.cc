#include "tests/fuzz/target.h"

#include <google/protobuf/stubs/logging.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "engine/base/check.h"

namespace rivulet::fuzz {
namespace {

std::vector<Target>& Registry() {
  // As in the program (cli/program/main.cc).
  static std::vector<Target> targets = [] {
    google::protobuf::SetLogHandler(nullptr);
    return std::vector<Target>();
  }();
  return targets;
}

class NoFile final : public WritableFile {
 public:
  Status Append(std::span<const std::byte>) override { return absl::OkStatus(); }
  Status Sync() override { return absl::OkStatus(); }
  Status Close() override { return absl::OkStatus(); }
};

class NoFileSystem final : public FileSystem {
 public:
  StatusOr<std::unique_ptr<WritableFile>> Create(const std::string&) override { return std::make_unique<NoFile>(); }
  StatusOr<std::string> ReadAll(const std::string& path) override { return NotFound("nothing is kept as '{}'", path); }
  Status Rename(const std::string&, const std::string&) override { return absl::OkStatus(); }
  Status SyncFolder(const std::string&) override { return absl::OkStatus(); }
  Status Remove(const std::string&) override { return absl::OkStatus(); }
  Status CreateFolder(const std::string&) override { return absl::OkStatus(); }
  StatusOr<std::vector<std::string>> List(const std::string&) override { return std::vector<std::string>(); }
  bool Exists(const std::string&) override { return true; }  // so no folder is made for what is written
};

}  // namespace

Registered::Registered(Target target) {
  std::vector<Target>& targets = Registry();
  const auto place = std::ranges::upper_bound(targets, target.name, {}, &Target::name);
  targets.insert(place, std::move(target));
}

const std::vector<Target>& Targets() { return Registry(); }

StructuredChange MessageFrom(size_t at) {
  return [at](std::string_view bytes, std::mt19937& random, const ChangeBytes& change) {
    const size_t begin = std::min(at, bytes.size());
    return std::string(bytes.substr(0, begin)) + ChangedMessage(bytes.substr(begin), random, change);
  };
}

std::string FileOf(std::string_view bytes) {
  static const int file = memfd_create("fuzz", 0);
  RIVULET_CHECK(file >= 0 && ftruncate(file, 0) == 0, "no file in memory");
  RIVULET_CHECK(pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()), "no room");
  return "/proc/self/fd/" + std::to_string(file);
}

std::string JsonFileOf(std::string_view bytes) {
  static const struct Link {
    const std::string path = std::filesystem::temp_directory_path() / fmt::format("rivulet-fuzz-{}.json", getpid());
    explicit Link(const std::string& file) {
      unlink(path.c_str());  // of a process of this number that was killed
      std::filesystem::create_symlink(file, path);
    }
    ~Link() { unlink(path.c_str()); }
  } link(FileOf(bytes));
  FileOf(bytes);
  return link.path;
}

FileSystem& Nowhere() {
  static NoFileSystem nowhere;
  return nowhere;
}

}  // namespace rivulet::fuzz
