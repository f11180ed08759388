#include "coordinator/intake/staging.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/file_system.h"

namespace rivulet {

// Memory comes from mmap and not from the heap: the heap would keep freed megabytes, scattered among small objects.
class MemoryBytes : public StagedBytes {
 public:
  MemoryBytes(Staging& staging, Staging::Buffer buffer) : staging_(staging), buffer_(buffer) {}
  ~MemoryBytes() override { staging_.GiveBack(buffer_); }
  Status AppendPieces(std::span<const std::span<const std::byte>> pieces) override {
    for (const std::span<const std::byte> bytes : pieces) {
      RIVULET_CHECK(bytes.size() <= buffer_.capacity - size_);
      if (!bytes.empty()) std::memcpy(buffer_.data + size_, bytes.data(), bytes.size());
      size_ += bytes.size();
    }
    return absl::OkStatus();
  }
  void Truncate(int64_t size) override {
    RIVULET_CHECK(size >= 0 && static_cast<size_t>(size) <= size_);
    size_ = static_cast<size_t>(size);
  }
  int64_t size() const override { return static_cast<int64_t>(size_); }
  bool on_disk() const override { return false; }
  StatusOr<std::span<const std::byte>> View() override { return std::span<const std::byte>(buffer_.data, size_); }

 private:
  Staging& staging_;
  Staging::Buffer buffer_;
  size_t size_ = 0;
};

namespace {

Status NotWritten(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return ResourceExhausted("the disk is full and cannot hold a client's upload; free some space");
    case EFBIG:
      return ResourceExhausted(
          "a client's upload is longer than a file may be here; raise the limit of files (ulimit -f) or "
          "server.staging_megabytes");
    default:
      return Internal("cannot write a client's upload to disk: {}", std::strerror(error));
  }
}

// The rest of `parts` after their first `bytes` bytes.
std::span<iovec> Behind(std::span<iovec> parts, size_t bytes) {
  while (!parts.empty() && bytes >= parts.front().iov_len) {
    bytes -= parts.front().iov_len;
    parts = parts.subspan(1);
  }
  if (bytes > 0) {
    parts.front().iov_base = static_cast<std::byte*>(parts.front().iov_base) + bytes;
    parts.front().iov_len -= bytes;
  }
  return parts;
}

class SpooledBytes : public StagedBytes {
 public:
  explicit SpooledBytes(int fd) : fd_(fd) {}
  ~SpooledBytes() override {
    Unmap();
    close(fd_);
  }
  // A message comes in many pieces. A system call for each would cost more than copying the bytes, because partially
  // written pages are started several times.
  Status AppendPieces(std::span<const std::span<const std::byte>> pieces) override {
    Unmap();
    std::vector<iovec> left;
    left.reserve(pieces.size());
    for (const std::span<const std::byte> piece : pieces) {
      if (!piece.empty()) left.push_back({const_cast<std::byte*>(piece.data()), piece.size()});
    }
    for (std::span<iovec> rest(left); !rest.empty();) {
      const int count = static_cast<int>(std::min<size_t>(rest.size(), IOV_MAX));
      const ssize_t written = pwritev(fd_, rest.data(), count, static_cast<off_t>(size_));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return NotWritten(errno);
      size_ += static_cast<size_t>(written);
      rest = Behind(rest, static_cast<size_t>(written));
    }
    return absl::OkStatus();
  }
  // The file keeps its length: the next write overwrites the rest.
  void Truncate(int64_t size) override {
    RIVULET_CHECK(size >= 0 && static_cast<size_t>(size) <= size_);
    Unmap();
    size_ = static_cast<size_t>(size);
  }
  int64_t size() const override { return static_cast<int64_t>(size_); }
  bool on_disk() const override { return true; }
  StatusOr<std::span<const std::byte>> View() override {
    if (map_ == nullptr && size_ > 0) {
      // The file has no name, so nothing can shrink it while it is mapped.
      void* map = mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd_, 0);
      if (map == MAP_FAILED) return ResourceExhausted("cannot map a client's upload: {}", std::strerror(errno));
      map_ = static_cast<std::byte*>(map);
      mapped_ = size_;
    }
    return std::span<const std::byte>(map_, size_);
  }

 private:
  void Unmap() {
    if (map_ != nullptr) munmap(map_, mapped_);
    map_ = nullptr;
  }
  int fd_;
  size_t size_ = 0;
  std::byte* map_ = nullptr;
  size_t mapped_ = 0;
};

}  // namespace

// A file without a name is removed with its descriptor, however the process ends, so a crash leaves nothing to clean
// up.
StatusOr<int> OpenUnlinked(const std::string& folder) {
  int fd = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) {  // not every file system has O_TMPFILE
    std::string path = JoinPath(folder, "upload-XXXXXX");
    fd = mkostemp(path.data(), O_CLOEXEC);
    if (fd >= 0) unlink(path.c_str());
  }
  if (fd < 0) {
    const int error = errno;
    if (error == ENOSPC || error == EDQUOT || error == EMFILE || error == ENFILE) {
      return ResourceExhausted("cannot stage a client's upload in '{}': {}", folder, std::strerror(error));
    }
    return Internal("cannot stage a client's upload in '{}': {}", folder, std::strerror(error));
  }
  return fd;
}

Staging::Staging(std::string folder, int64_t memory_bytes, std::function<StatusOr<int>(const std::string& folder)> open)
    : folder_(std::move(folder)),
      budget_(static_cast<size_t>(std::max<int64_t>(memory_bytes, 0))),
      open_(std::move(open)) {}

Staging::~Staging() {
  RIVULET_CHECK(in_use_ == 0, "{} bytes of uploads outlive their staging", in_use_);
  for (const Buffer& buffer : free_) munmap(buffer.data, buffer.capacity);
}

// Reserves all of an update's room at once: an upload that starts in memory and exceeds the budget later would have to
// be moved, or two would wait for each other's room.
StatusOr<std::unique_ptr<StagedBytes>> Staging::Reserve(int64_t bytes) {
  RIVULET_CHECK(bytes > 0);
  if (const Buffer buffer = Take(static_cast<size_t>(bytes)); buffer.data != nullptr) {
    return std::make_unique<MemoryBytes>(*this, buffer);
  }
  RIVULET_ASSIGN_OR_RETURN(const int fd, open_(folder_));
  MutexLock lock(mutex_);
  ++spilled_;
  return std::make_unique<SpooledBytes>(fd);
}

int64_t Staging::memory_in_use() const {
  MutexLock lock(mutex_);
  return static_cast<int64_t>(in_use_);
}

int64_t Staging::spilled() const {
  MutexLock lock(mutex_);
  return spilled_;
}

// Buffers are kept for the next update within the same budget. Fresh pages would cost a fault for every 4 KiB of every
// update; but kept buffers are freed before an upload goes to disk.
Staging::Buffer Staging::Take(size_t bytes) {
  constexpr size_t kPage = 4096;
  const size_t capacity = (bytes + kPage - 1) / kPage * kPage;
  MutexLock lock(mutex_);
  // The updates of a run have similar sizes, so a fitting buffer is usually there.
  for (size_t i = 0; i < free_.size(); ++i) {
    const Buffer buffer = free_[i];
    // A buffer more than twice too large would withhold memory from others.
    if (buffer.capacity < capacity || buffer.capacity > 2 * capacity) continue;
    free_[i] = free_.back();
    free_.pop_back();
    kept_ -= buffer.capacity;
    in_use_ += buffer.capacity;
    return buffer;
  }
  if (in_use_ + capacity > budget_) return {};
  while (in_use_ + kept_ + capacity > budget_) {
    munmap(free_.back().data, free_.back().capacity);
    kept_ -= free_.back().capacity;
    free_.pop_back();
  }
  void* data = mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return {};
  in_use_ += capacity;
  return {static_cast<std::byte*>(data), capacity};
}

void Staging::GiveBack(Buffer buffer) {
  MutexLock lock(mutex_);
  in_use_ -= buffer.capacity;
  kept_ += buffer.capacity;
  free_.push_back(buffer);
}

}  // namespace rivulet
