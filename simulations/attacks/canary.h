// Canary clients, which audit the privacy of a run (simulations/canary_audit.h). A canary has a random direction and a
// coin, both functions of the run's seed and its name. It sends the direction in every task, or nothing if its coin
// excludes it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/base/draws.h"

namespace rivulet {

inline constexpr char kCanaryAttack[] = "canary";

struct Canary {
  bool taken = false;
  std::vector<double> direction;  // of the norm 1, in wire order
};
// `draws` depend on the client alone, the same in every task (DrawsOfAttacker).
Canary CanaryFrom(Draws draws, size_t elements);

// The draws of an attack with Attack::keeps_to_client.
Draws DrawsOfAttacker(uint64_t stream_key);

}  // namespace rivulet
