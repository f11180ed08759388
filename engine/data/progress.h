// Progress of a long operation, and a way to stop it.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/base/status.h"

namespace rivulet {

// Called repeatedly on the working thread with `done` of `total`, in units defined by the called function. An error
// stops the work: it is returned, and no partly written file is left. May be empty.
using DataProgress = std::function<Status(int64_t done, int64_t total)>;

}  // namespace rivulet
