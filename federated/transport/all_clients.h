// A coordinator's whole list of clients, fetched page by page.
#pragma once

#include <cstddef>
#include <vector>

#include "federated/transport/control_api.h"

namespace rivulet {

inline constexpr size_t kMostClientListBytes = 256'000'000;

// Requests pages from `control` until it reports no more, or sends an empty page. The other side is not trusted.
// DATA_LOSS: names are not ascending, so that the list might never end; RESOURCE_EXHAUSTED: the list needs more memory
// than `most_bytes`.
StatusOr<std::vector<ClientState>> AllClients(ControlApi& control, size_t most_bytes = kMostClientListBytes);

}  // namespace rivulet
