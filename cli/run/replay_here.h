// Replay of a stored run, with progress on the terminal.
#pragma once

#include "engine/base/status.h"
#include "simulations/replay.h"

namespace rivulet {

// Replay that prints how many versions were reproduced so far.
StatusOr<ReplayResult> ReplayHere(ReplayOptions options);

}  // namespace rivulet
