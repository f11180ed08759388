#include "engine/base/write_target.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "engine/base/file_system.h"

namespace rivulet {

StatusOr<WriteTarget> WriteTargetOf(const std::string& path) {
  constexpr int kMostLinks = 40;  // as the kernel's own
  WriteTarget target{path};
  for (int followed = 0; followed <= kMostLinks; ++followed) {
    struct stat info;
    // What cannot be looked at is told by whoever creates it.
    if (lstat(target.path.c_str(), &info) != 0) return target;
    if (S_ISDIR(info.st_mode)) return InvalidArgument("cannot write '{}': it is a folder", path);
    if (!S_ISLNK(info.st_mode)) {
      target.in_place = !S_ISREG(info.st_mode);
      return target;
    }
    std::string next(4096, '\0');
    const ssize_t length = readlink(target.path.c_str(), next.data(), next.size());
    if (length < 0) return Internal("cannot read the link '{}': {}", target.path, std::strerror(errno));
    next.resize(static_cast<size_t>(length));
    target.path = JoinPath(FolderOf(target.path), next);
  }
  return InvalidArgument("cannot write '{}': its links lead in a circle", path);
}

}  // namespace rivulet
