#include "engine/base/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/base/available_memory.h"
#include "engine/base/temporary_name.h"
#include "engine/base/write_target.h"

namespace rivulet {
namespace {

// "cannot create 'x': No space left on device", with the code that the caller can act on.
Status SystemError(std::string_view what, std::string_view path, int error) {
  const std::string message = fmt::format("cannot {} '{}': {}", what, path, std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return NotFound("{}", message);
    case EACCES:
    case EPERM:
    case EROFS:
      return PermissionDenied("{}", message);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return ResourceExhausted("{}", message);
    case EEXIST:
      return AlreadyExists("{}", message);
    default:
      return Internal("{}", message);
  }
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

class PosixWritableFile : public WritableFile {
 public:
  PosixWritableFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  Status Append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = write(fd_.get(), bytes.data(), bytes.size());
      if (written < 0) {
        if (errno == EINTR) continue;
        return SystemError("write", path_, errno);
      }
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  }

  Status Sync() override {
    // EINVAL: a pipe or a device, which has nothing to sync.
    if (fdatasync(fd_.get()) != 0 && errno != EINVAL) return SystemError("sync", path_, errno);
    return absl::OkStatus();
  }

  Status Close() override {
    if (close(fd_.Release()) != 0) return SystemError("close", path_, errno);
    return absl::OkStatus();
  }

 private:
  std::string path_;
  FileDescriptor fd_;
};

class PosixFileSystem : public FileSystem {
 public:
  // Cut only where there is something to cut: of a file that was opened to be cut ext4 begins to write at its close,
  // lest a program that writes over it in place loses both at a crash. A file that was made empty a moment before, as
  // AtomicFile makes those of its owner alone, counts as one, and took three times as long, whether or not it was to be
  // synced.
  StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    FileDescriptor fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    struct stat info;
    if (fd.get() < 0 || fstat(fd.get(), &info) != 0) return SystemError("create", path, errno);
    if (S_ISREG(info.st_mode) && info.st_size > 0 && ftruncate(fd.get(), 0) != 0)
      return SystemError("create", path, errno);
    return std::make_unique<PosixWritableFile>(path, fd.Release());
  }

  StatusOr<std::string> ReadAll(const std::string& path) override {
    // O_NONBLOCK: opening a pipe must not wait for a writer; only plain files are read.
    FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd.get() < 0) return SystemError("open", path, errno);
    struct stat info;
    if (fstat(fd.get(), &info) != 0) return SystemError("read", path, errno);
    if (!S_ISREG(info.st_mode)) return InvalidArgument("'{}' is not a plain file", path);
    // Told here, where the file has a name: further up it would be memory that ran out, somewhere. Small ones are not
    // worth asking the system.
    constexpr size_t kAlwaysFits = size_t{64} << 20;
    const size_t size = static_cast<size_t>(info.st_size);
    if (const size_t most = size > kAlwaysFits ? AvailableMemory() : size; size > most)
      return ResourceExhausted("'{}' has {} bytes, but only {} of memory are available to read it into", path, size,
                               most);
    std::string bytes(size, '\0');
    size_t length = 0;
    while (true) {
      if (length == bytes.size()) bytes.resize(bytes.size() + 4096);  // it may have grown
      const ssize_t got = read(fd.get(), bytes.data() + length, bytes.size() - length);
      if (got < 0) {
        if (errno == EINTR) continue;
        return SystemError("read", path, errno);
      }
      if (got == 0) break;
      length += static_cast<size_t>(got);
    }
    bytes.resize(length);
    return bytes;
  }

  Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) != 0) return SystemError(fmt::format("rename '{}' to", from), to, errno);
    return absl::OkStatus();
  }

  Status SyncFolder(const std::string& folder) override {
    FileDescriptor fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd.get() < 0) return SystemError("open the folder", folder, errno);
    if (fsync(fd.get()) != 0) return SystemError("sync the folder", folder, errno);
    return absl::OkStatus();
  }

  Status Remove(const std::string& path) override {
    if (unlink(path.c_str()) != 0) return SystemError("remove", path, errno);
    return absl::OkStatus();
  }

  Status CreateFolder(const std::string& folder) override {
    if (mkdir(folder.c_str(), 0755) == 0) return absl::OkStatus();
    const int error = errno;
    if (error != EEXIST) return SystemError("create the folder", folder, error);
    // A name that is taken is as good as a folder only if it leads to one.
    struct stat info;
    if (stat(folder.c_str(), &info) != 0) {
      if (errno != ENOENT) return SystemError("create the folder", folder, errno);
      return NotFound("cannot create the folder '{}': a link of that name leads nowhere; remove it, or make its target",
                      folder);
    }
    return SystemError("create the folder", folder, S_ISDIR(info.st_mode) ? EEXIST : ENOTDIR);
  }

  StatusOr<std::vector<std::string>> List(const std::string& folder) override {
    DIR* dir = opendir(folder.c_str());
    if (dir == nullptr) return SystemError("list", folder, errno);
    std::vector<std::string> names;
    while (const dirent* entry = readdir(dir)) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    closedir(dir);
    std::sort(names.begin(), names.end());
    return names;
  }

  bool Exists(const std::string& path) override { return access(path.c_str(), F_OK) == 0; }
};

}  // namespace

FileSystem& FileSystem::Default() {
  static PosixFileSystem file_system;
  return file_system;
}

// A parent may be there and yet be refused, unreadable or on a file system that is read-only: only the last one must be
// made.
Status FileSystem::CreateFolders(const std::string& folder) {
  if (folder.empty()) return CreateFolder(folder);
  for (size_t end = 1; end <= folder.size(); ++end) {
    if (end != folder.size() && (folder[end] != '/' || folder[end - 1] == '/')) continue;
    const std::string prefix = folder.substr(0, end);
    const Status status = CreateFolder(prefix);
    if (status.ok()) {
      RIVULET_RETURN_IF_ERROR(SyncFolder(FolderOf(prefix)));
    } else if (!absl::IsAlreadyExists(status) && (end == folder.size() || !Exists(prefix))) {
      return status;
    }
  }
  return absl::OkStatus();
}

// Order is all here: the bytes are on disk before they have the name, and the name is on disk before the caller is
// told.
Status WriteFileAtomically(FileSystem& fs, const std::string& path, std::string_view bytes) {
  RIVULET_ASSIGN_OR_RETURN(const WriteTarget target, WriteTargetOf(path));
  // Two writers of one path have two names; the last rename wins whole.
  const std::string temporary = target.in_place ? target.path : TemporaryNameOf(target.path);
  const auto write = [&]() -> Status {
    RIVULET_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, fs.Create(temporary));
    RIVULET_RETURN_IF_ERROR(file->Append(bytes));
    RIVULET_RETURN_IF_ERROR(file->Sync());
    RIVULET_RETURN_IF_ERROR(file->Close());
    return target.in_place ? absl::OkStatus() : fs.Rename(temporary, target.path);
  };
  const Status status = write();
  if (target.in_place) return status;
  if (!status.ok()) {
    if (fs.Exists(temporary)) fs.Remove(temporary).IgnoreError();  // the first error is the one to tell
    return status;
  }
  return fs.SyncFolder(FolderOf(target.path));
}

// flock is released by the system with the process, however it ends; a file that merely exists would lock out the next
// start after a crash.
StatusOr<std::unique_ptr<FileLock>> FileLock::Acquire(const std::string& path) {
  FileDescriptor fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (fd.get() < 0) return SystemError("open the lock", path, errno);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return Unavailable("another process holds the lock '{}'", path);
    return SystemError("lock", path, errno);
  }
  return std::unique_ptr<FileLock>(new FileLock(fd.Release()));
}

FileLock::~FileLock() { close(fd_); }

std::string JoinPath(std::string_view folder, std::string_view name) {
  if (folder.empty() || (!name.empty() && name.front() == '/')) return std::string(name);
  return fmt::format("{}{}{}", folder, folder.back() == '/' ? "" : "/", name);
}

std::string FolderOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return std::string(path.substr(0, slash == 0 ? 1 : slash));
}

}  // namespace rivulet
