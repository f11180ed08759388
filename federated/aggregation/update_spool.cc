#include "federated/aggregation/update_spool.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "engine/base/file_system.h"

namespace rivulet {
namespace {

Status SpoolError(std::string_view what, int error) {
  // For callers, a file size limit is the same as a full disk.
  if (error == ENOSPC || error == EDQUOT || error == EFBIG || error == EMFILE || error == ENFILE) {
    return ResourceExhausted("{}: {}; free some space, or give TMPDIR another folder", what, std::strerror(error));
  }
  return Internal("{}: {}", what, std::strerror(error));
}

}  // namespace

StatusOr<std::shared_ptr<UpdateSpool>> UpdateSpool::Create() {
  const char* const given = std::getenv("TMPDIR");
  const std::string folder = given != nullptr && *given != '\0' ? given : "/var/tmp";
  int fd = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) {  // some file systems lack O_TMPFILE
    std::string path = JoinPath(folder, "updates-XXXXXX");
    fd = mkostemp(path.data(), O_CLOEXEC);
    if (fd >= 0) unlink(path.c_str());
  }
  if (fd < 0) return SpoolError(fmt::format("cannot keep updates in '{}'", folder), errno);
  return std::shared_ptr<UpdateSpool>(new UpdateSpool(fd));
}

std::string UpdateSpool::path() const { return fmt::format("/proc/{}/fd/{}", getpid(), fd_); }

UpdateSpool::~UpdateSpool() { close(fd_); }

Status UpdateSpool::Append(std::span<const std::byte> bytes) {
  int64_t at = size_;
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SpoolError("cannot keep an update on disk", errno);
    at += written;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  size_ = at;
  return absl::OkStatus();
}

Status UpdateSpool::Read(int64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = pread(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SpoolError("cannot read an update from disk", errno);
    if (got == 0) return Internal("{} bytes of an update are missing on disk", bytes.size());
    offset += got;
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
  return absl::OkStatus();
}

}  // namespace rivulet
