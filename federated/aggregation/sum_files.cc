#include "federated/aggregation/sum_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/file_system.h"
#include "federated/aggregation/updates_rule.h"

namespace rivulet {
namespace {

Status NoSumFile(const std::string& folder, size_t bytes, int error) {
  const std::string what = fmt::format("cannot reserve {} bytes in '{}' for the sums of server.partial = \"disk\": {}",
                                       bytes, folder, std::strerror(error));
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return ResourceExhausted("{}; free some space there, or set server.partial = \"memory\"", what);
    case EFBIG:
      return ResourceExhausted("{}; raise the limit of files (ulimit -f), or set server.partial = \"memory\"", what);
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return ResourceExhausted("{}", what);
    default:
      return Internal("{}", what);
  }
}

int OpenUnnamed(const std::string& folder) {
  int fd = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) {  // some file systems lack O_TMPFILE
    std::string path = JoinPath(folder, "sums-XXXXXX");
    fd = mkostemp(path.data(), O_CLOEXEC);
    if (fd >= 0) unlink(path.c_str());
  }
  return fd;
}

}  // namespace

// A mapping keeps its file open, so the descriptor is closed at once.
struct SumFiles::File {
  std::byte* data = nullptr;
  size_t bytes = 0;

  static StatusOr<File> Open(const std::string& folder, size_t bytes) {
    const int fd = OpenUnnamed(folder);
    if (fd < 0) return NoSumFile(folder, bytes, errno);
    int error = 0;
    do error = posix_fallocate(fd, 0, static_cast<off_t>(bytes));
    while (error == EINTR);
    void* data = MAP_FAILED;
    if (error == 0) {
      data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
      if (data == MAP_FAILED) error = errno;
    }
    close(fd);
    if (error != 0) return NoSumFile(folder, bytes, error);
    return File{static_cast<std::byte*>(data), bytes};
  }
  void Close() const { munmap(data, bytes); }
};

// Files that no array uses now. Lives as long as any array that may return its file.
struct SumFiles::Idle {
  ~Idle() {
    for (const File& file : files) file.Close();
  }
  Mutex mutex;
  std::vector<File> files GUARDED_BY(mutex);
  size_t taken GUARDED_BY(mutex) = 0;
  size_t most GUARDED_BY(mutex) = 0;  // limit of `files` and `taken` together; above it, a returned file is closed
};

SumFiles::SumFiles(std::string folder) : folder_(std::move(folder)), idle_(std::make_shared<Idle>()) {}

StatusOr<std::shared_ptr<SumFiles>> SumFiles::Create(std::string folder, const AggregationSpec& spec) {
  std::shared_ptr<SumFiles> files(new SumFiles(std::move(folder)));
  if (IsUpdatesRule(spec.rule)) return files;  // such rules have no sums
  Idle& idle = *files->idle_;
  MutexLock lock(idle.mutex);
  for (const PartSpec& part : spec.parts) {
    const auto bytes = static_cast<size_t>(part.elements) * static_cast<size_t>(part.sum_bits / 8);
    if (bytes == 0) continue;
    RIVULET_ASSIGN_OR_RETURN(idle.files.emplace_back(), File::Open(files->folder_, bytes));
    idle.most = idle.files.size();
  }
  return files;
}

StatusOr<std::shared_ptr<std::byte>> SumFiles::Take(size_t bytes) {
  RIVULET_CHECK(bytes > 0);
  File file;
  {
    MutexLock lock(idle_->mutex);
    ++idle_->taken;
    for (File& idle : idle_->files) {
      if (idle.bytes != bytes) continue;
      file = std::exchange(idle, idle_->files.back());
      idle_->files.pop_back();
      break;
    }
  }
  if (file.data == nullptr) {
    StatusOr<File> opened = File::Open(folder_, bytes);
    if (!opened.ok()) {
      MutexLock lock(idle_->mutex);
      --idle_->taken;
      return opened.status();
    }
    file = *opened;
  }
  return std::shared_ptr<std::byte>(file.data, [idle = idle_, file](std::byte*) {
    {
      MutexLock lock(idle->mutex);
      if (--idle->taken + idle->files.size() < idle->most) {
        idle->files.push_back(file);
        return;
      }
    }
    file.Close();
  });
}

}  // namespace rivulet
