// Op libraries and algorithm libraries that a program loads.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"

namespace rivulet {

struct LibraryPaths {
  std::vector<std::string> ops, algorithms;
};
// Loads the libraries that the environment names, then `paths`. Child processes inherit them. Usage errors.
Status LoadLibraries(const LibraryPaths& paths);

}  // namespace rivulet
