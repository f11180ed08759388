// A file without a name has nothing that a test could damage but its descriptor.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <string>
#include <string_view>

namespace rivulet::testing {

// The descriptor of this process that leads into `folder` leads to `by` from now on: "/dev/full" for a disk that is
// full, or anything that is opened to be read only for one that breaks. False: there is none.
inline bool ReplaceDescriptorOf(const std::string& folder, const char* by, int flags) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (gone || !target.starts_with(folder + "/")) continue;
    const std::string number = entry.path().filename();
    int fd = -1;
    std::from_chars(number.data(), number.data() + number.size(), fd);
    const int other = open(by, flags | O_CLOEXEC);
    const bool replaced = other >= 0 && dup2(other, fd) == fd;
    if (other >= 0) close(other);
    return replaced;
  }
  return false;
}

}  // namespace rivulet::testing
