#include "federated/weights/base_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/base/temporary_name.h"
#include "engine/io/atomic_file.h"

namespace rivulet {
namespace {

constexpr char kKept[] = ".safetensors", kPart[] = ".part", kLock[] = ".lock";
constexpr int64_t kLockWaitMs = 100;
constexpr uintptr_t kVariableAlignment = 64;  // required by kernels

// An append-only file.
class PartFile {
 public:
  static StatusOr<PartFile> Open(const std::string& path) {
    PartFile file(path, open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (file.fd_ < 0) return file.Failed();
    struct stat info;
    if (fstat(file.fd_, &info) != 0) return file.Failed();
    file.size_ = info.st_size;
    return file;
  }
  PartFile(PartFile&& other) noexcept
      : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}
  PartFile& operator=(PartFile&&) = delete;
  ~PartFile() {
    if (fd_ >= 0) close(fd_);
  }

  int64_t size() const { return size_; }
  Status Append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return Failed();
      size_ += written;
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  }
  Status Empty() {
    if (ftruncate(fd_, 0) != 0) return Failed();
    size_ = 0;
    return absl::OkStatus();
  }
  Status Sync() { return fsync(fd_) == 0 ? absl::OkStatus() : Failed(); }

 private:
  PartFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  Status Failed() const {
    const int error = errno;
    if (error == ENOSPC || error == EDQUOT) return ResourceExhausted("'{}': {}", path_, std::strerror(error));
    return FailedPrecondition("cannot write '{}': {}", path_, std::strerror(error));
  }

  std::string path_;
  int fd_;
  int64_t size_ = 0;
};

std::string HowToGive(const Digest& digest) {
  return fmt::format("give this client its own copy: --base {}=FILE", digest.Hex());
}

}  // namespace

StatusOr<std::string> BaseStore::DefaultFolder() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return JoinPath(cache, "rivulet/bases");
  const char* const home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') return JoinPath(home, ".cache/rivulet/bases");
  return NotFound("no folder for downloads is known: neither XDG_CACHE_HOME nor HOME is set");
}

void BaseStore::Note(const std::string& sentence) const {
  if (options_.note) options_.note(sentence);
}

Status BaseStore::Give(const Digest& digest, const std::string& path) {
  RIVULET_ASSIGN_OR_RETURN(auto base, Base::Open(path));
  RIVULET_RETURN_IF_ERROR(CheckIsBase(*base, digest));
  Give(Aligned(std::move(base)));
  return absl::OkStatus();
}

void BaseStore::Give(std::shared_ptr<const Base> base) {
  MutexLock lock(mutex_);
  open_.insert_or_assign(base->digest().Hex(), std::move(base));
}

// One thread opens or downloads a base; others that need the same one wait for it.
StatusOr<std::shared_ptr<const Base>> BaseStore::Of(const Digest& digest, int64_t most, const Download& download) {
  const std::string name = digest.Hex();
  {
    MutexLock lock(mutex_);
    while (sought_.contains(name)) found_.Wait(mutex_);
    if (const auto known = open_.find(name); known != open_.end()) return known->second;
    sought_.insert(name);
  }
  StatusOr<std::shared_ptr<const Base>> base = Find(digest, most, download);
  MutexLock lock(mutex_);
  sought_.erase(name);
  found_.NotifyAll();
  // A base that was added meanwhile is kept.
  if (base.ok()) return open_.emplace(name, *base).first->second;
  return base;
}

StatusOr<std::string> BaseStore::Folder(const Digest& digest) {
  std::string folder = options_.folder;
  if (folder.empty()) {
    StatusOr<std::string> usual = DefaultFolder();
    if (!usual.ok()) {
      return FailedPrecondition("the base {} is not here: {}; {}", digest.Hex(), Message(usual.status()),
                                HowToGive(digest));
    }
    folder = *std::move(usual);
  }
  if (const Status made = FileSystem::Default().CreateFolders(folder); !made.ok()) {
    return FailedPrecondition("the base {} cannot be kept: {}; {}", digest.Hex(), Message(made), HowToGive(digest));
  }
  return folder;
}

StatusOr<std::unique_ptr<FileLock>> BaseStore::LockOf(const std::string& stem, const Digest& digest,
                                                      const Download& download) {
  for (;;) {
    StatusOr<std::unique_ptr<FileLock>> taken = FileLock::Acquire(stem + kLock);
    if (taken.ok()) return taken;
    if (!absl::IsUnavailable(taken.status())) {
      return FailedPrecondition("the base {} cannot be kept: {}; {}", digest.Hex(), Message(taken.status()),
                                HowToGive(digest));
    }
    // Another process may be downloading it.
    if (download.wait && !download.wait(kLockWaitMs)) return Cancelled("stopped");
    if (!download.wait) std::this_thread::sleep_for(std::chrono::milliseconds(kLockWaitMs));
  }
}

StatusOr<std::shared_ptr<const Base>> BaseStore::Find(const Digest& digest, int64_t most, const Download& download) {
  RIVULET_ASSIGN_OR_RETURN(const std::string folder, Folder(digest));
  const std::string stem = JoinPath(folder, digest.Hex());
  RIVULET_ASSIGN_OR_RETURN(const auto alone, LockOf(stem, digest, download));
  RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<const Base> base, Kept(stem + kKept, digest));
  if (base == nullptr) {
    if (!download.fetch) {
      return FailedPrecondition("the base {} is not here; {}", digest.Hex(), HowToGive(digest));
    }
    RIVULET_RETURN_IF_ERROR(MakeRoom(folder, digest, most));
    RIVULET_ASSIGN_OR_RETURN(base, Fetched(stem, digest, most, download));
  }
  utimensat(AT_FDCWD, (stem + kKept).c_str(), nullptr, 0);  // marks it as just used
  return base;
}

std::shared_ptr<const Base> BaseStore::Aligned(std::shared_ptr<const Base> base) {
  int64_t odd = 0;
  for (const Base::Tensor& tensor : base->tensors()) {
    const auto place = reinterpret_cast<uintptr_t>(base->Mapped(tensor));
    if (place % kVariableAlignment != 0) odd += static_cast<int64_t>(tensor.bytes);
  }
  if (odd < kWorthACopy) return base;
  StatusOr<std::shared_ptr<const Base>> copy = AlignedCopy(*base);
  if (copy.ok()) return *std::move(copy);
  Note(
      fmt::format("the base '{}' has {} bytes at places that programs cannot read in place, and no aligned copy is "
                  "kept: {}; each process has them in its own memory",
                  base->path(), odd, Message(copy.status())));
  return base;
}

StatusOr<std::shared_ptr<const Base>> BaseStore::AlignedCopy(const Base& base) {
  RIVULET_ASSIGN_OR_RETURN(const std::string folder, Folder(base.digest()));
  const std::string stem = JoinPath(folder, base.digest().Hex()), path = stem + kKept;
  RIVULET_ASSIGN_OR_RETURN(const auto alone, LockOf(stem, base.digest(), {}));
  RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<const Base> copy, Kept(path, base.digest()));
  if (copy == nullptr) {
    RIVULET_RETURN_IF_ERROR(MakeRoom(folder, base.digest(), base.travel_bytes()));
    RIVULET_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(FileSystem::Default(), path));
    std::vector<std::byte> piece(size_t{1} << 20);
    for (int64_t at = 0; at < base.travel_bytes(); at += std::ssize(piece)) {
      const std::span<std::byte> next =
          std::span(piece).first(static_cast<size_t>(std::min(std::ssize(piece), base.travel_bytes() - at)));
      RIVULET_RETURN_IF_ERROR(base.ReadTravelling(at, next));
      RIVULET_RETURN_IF_ERROR(file->Append(next));
    }
    RIVULET_RETURN_IF_ERROR(file->Commit());
    Note(
        fmt::format("programs cannot read the base '{}' in place, as its tensors are at odd places; its aligned copy "
                    "'{}' has {} bytes",
                    base.path(), path, base.travel_bytes()));
    RIVULET_ASSIGN_OR_RETURN(copy, Base::Open(path));
    RIVULET_RETURN_IF_ERROR(CheckIsBase(*copy, base.digest()));
  }
  utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // marks it as just used
  return copy;
}

// Returns null if there is no copy, or if it was damaged and has been removed.
StatusOr<std::shared_ptr<const Base>> BaseStore::Kept(const std::string& path, const Digest& digest) {
  if (!FileSystem::Default().Exists(path)) return std::shared_ptr<const Base>();
  const StatusOr<std::shared_ptr<const Base>> base = Base::Open(path);
  if (base.ok() && (*base)->digest() == digest) return base;
  Note(base.ok() ? fmt::format("the kept base '{}' has digest {}; it is replaced", path, (*base)->digest().Hex())
                 : fmt::format("{}; it is replaced", Message(base.status())));
  RIVULET_RETURN_IF_ERROR(FileSystem::Default().Remove(path));
  return std::shared_ptr<const Base>();
}

StatusOr<std::shared_ptr<const Base>> BaseStore::Fetched(const std::string& stem, const Digest& digest, int64_t most,
                                                         const Download& download) {
  const std::string part = stem + kPart, kept = stem + kKept;
  {
    RIVULET_ASSIGN_OR_RETURN(PartFile file, PartFile::Open(part));
    Note(fmt::format("downloading the base {}, from byte {}", digest.Hex(), file.size()));
    const auto fetch = [&] {
      return download.fetch(digest, most, file.size(),
                            [&](std::span<const std::byte> bytes) { return file.Append(bytes); });
    };
    Status fetched = fetch();
    // The bytes that an earlier process stored do not belong to this base.
    if (absl::IsOutOfRange(fetched) && file.size() > 0) {
      RIVULET_RETURN_IF_ERROR(file.Empty());
      fetched = fetch();
    }
    if (absl::IsNotFound(fetched) || absl::IsFailedPrecondition(fetched)) {
      return FailedPrecondition("the base {} is not here, and the coordinator does not send it: {}; {}", digest.Hex(),
                                Message(fetched), HowToGive(digest));
    }
    RIVULET_RETURN_IF_ERROR(fetched);
    RIVULET_RETURN_IF_ERROR(file.Sync());
    Note(fmt::format("the base has {} bytes", file.size()));
  }
  const StatusOr<std::shared_ptr<const Base>> came = Base::Open(part);
  if (came.ok() && (*came)->digest() == digest) {
    RIVULET_RETURN_IF_ERROR(FileSystem::Default().Rename(part, kept));
    return Base::Open(kept);
  }
  FileSystem::Default().Remove(part).IgnoreError();
  if (!came.ok()) return DataLoss("the base {} came damaged: {}", digest.Hex(), Message(came.status()));
  return DataLoss("the coordinator sent a base of digest {} for {}; its file was changed or is damaged",
                  (*came)->digest().Hex(), digest.Hex());
}

// Aligned copies are written under their base's lock, so a copy being written can be told from an abandoned one.
void BaseStore::RemoveBrokenCopies(const std::string& folder, const Digest& digest,
                                   std::span<const std::string> names) const {
  for (const std::string& name : names) {
    const std::optional<std::string_view> target = TargetOfTemporary(name);
    if (!target || !target->ends_with(kKept)) continue;
    const std::string_view stem = target->substr(0, target->size() - std::string_view(kKept).size());
    if (stem != digest.Hex() && !FileLock::Acquire(JoinPath(folder, stem) + kLock).ok()) continue;
    const std::string path = JoinPath(folder, name);
    if (FileSystem::Default().Remove(path).ok()) Note(fmt::format("'{}', an unfinished copy, was removed", path));
  }
}

Status BaseStore::MakeRoom(const std::string& folder, const Digest& digest, int64_t most) {
  const int64_t limit = options_.megabytes * 1'000'000, room = limit - most;
  if (room < 0) {
    return FailedPrecondition("the base {} has up to {} bytes, and {} are kept in '{}'; raise --base-megabytes, or {}",
                              digest.Hex(), most, limit, folder, HowToGive(digest));
  }
  RIVULET_ASSIGN_OR_RETURN(const std::vector<std::string> names, FileSystem::Default().List(folder));
  RemoveBrokenCopies(folder, digest, names);
  std::vector<std::tuple<int64_t, int64_t, std::string>> others;  // last use, bytes, path
  int64_t used = 0;
  for (const std::string& name : names) {
    if (name.starts_with(digest.Hex()) || !(name.ends_with(kKept) || name.ends_with(kPart))) continue;
    const std::string path = JoinPath(folder, name);
    struct stat info;
    if (stat(path.c_str(), &info) != 0) continue;
    others.emplace_back(int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec, info.st_size, path);
    used += info.st_size;
  }
  std::ranges::sort(others);
  for (const auto& [last_use, bytes, path] : others) {
    if (used <= room) break;
    if (!FileSystem::Default().Remove(path).ok()) continue;
    Note(fmt::format("the base '{}' was removed to make room", path));
    used -= bytes;
  }
  return absl::OkStatus();
}

}  // namespace rivulet
