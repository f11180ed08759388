// Resolution of an output path to the file that is written: links are followed, special files are recognised.
#pragma once

#include <string>

#include "engine/base/status.h"

namespace rivulet {

struct WriteTarget {
  std::string path;       // what `path` stands for once its links are followed
  bool in_place = false;  // a device, a pipe or a socket: to be written into, never replaced or removed
};

// A regular file, and a name that nothing has yet, is made anew beside `path` and renamed to it. INVALID_ARGUMENT: a
// folder, or links in a circle.
StatusOr<WriteTarget> WriteTargetOf(const std::string& path);

}  // namespace rivulet
