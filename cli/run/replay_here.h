// Replay of a stored run, with progress on the terminal.
#pragma once

#include "engine/base/status.h"
#include "simulations/replay.h"

namespace rivulet {

// Replay, which tells how many versions have come out as recorded.
StatusOr<ReplayResult> ReplayHere(ReplayOptions options);

}  // namespace rivulet
