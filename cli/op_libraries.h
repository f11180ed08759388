// Libraries of ops and kernels that a program takes beside its own.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"

namespace rivulet {

// Those of the environment, then `paths`. Processes that this one starts inherit them. Usage errors.
Status LoadOpLibraries(std::vector<std::string> paths);

}  // namespace rivulet
