#include "engine/base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace rivulet {

StatusOr<std::unique_ptr<FolderLock>> FolderLock::Take(const std::string& folder, int operation) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return NotFound("there is no folder '{}'", folder);
    return Internal("cannot open the folder '{}': {}", folder, std::strerror(errno));
  }
  std::unique_ptr<FolderLock> lock(new FolderLock(fd));
  int result = 0;
  do {
    result = flock(fd, operation);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return lock;
  if (errno == EWOULDBLOCK) return Unavailable("a process reads the folder '{}'", folder);
  return Unimplemented("the folder '{}' cannot be locked: {}", folder, std::strerror(errno));
}

StatusOr<std::unique_ptr<FolderLock>> FolderLock::ToRead(const std::string& folder) { return Take(folder, LOCK_SH); }

StatusOr<std::unique_ptr<FolderLock>> FolderLock::ToRemove(const std::string& folder) {
  return Take(folder, LOCK_EX | LOCK_NB);
}

FolderLock::~FolderLock() { close(fd_); }

}  // namespace rivulet
