// Progress of a long operation, and a way to stop it.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/base/status.h"

namespace rivulet {

// Called now and then on the working thread with `done` of `total` (of what, the function that takes it says). An error
// stops the work: it is returned, and nothing is left half-written. May be empty.
using DataProgress = std::function<Status(int64_t done, int64_t total)>;

}  // namespace rivulet
