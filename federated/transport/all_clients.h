// A coordinator's whole list of clients, which comes in pages.
#pragma once

#include <cstddef>
#include <vector>

#include "federated/transport/control_api.h"

namespace rivulet {

inline constexpr size_t kMostClientListBytes = 256'000'000;

// Asks `control` for page after page until it says that there are no more, or sends an empty page. The other side may
// be false: DATA_LOSS if names do not come in order, so that a list cannot begin again; RESOURCE_EXHAUSTED if the list
// needs more memory than `most_bytes`.
StatusOr<std::vector<ClientState>> AllClients(ControlApi& control, size_t most_bytes = kMostClientListBytes);

}  // namespace rivulet
