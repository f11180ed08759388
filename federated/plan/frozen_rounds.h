// Variables that clients do not train in some rounds (client.frozen): their gradient is zero in these.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/scope.h"
#include "federated/weights/layout.h"

namespace rivulet {

struct FrozenRounds {
  int64_t from = 1, until = 1;  // both inclusive
  // The frozen stretches of a flat vector of the trained variables, ascending and not adjacent.
  struct Stretch {
    int64_t first = 0, count = 0;
    bool operator==(const Stretch&) const = default;
  };
  std::vector<Stretch> stretches;
};

// Parses lines "PATTERN=FROM..UNTIL" or "PATTERN=FROM..". INVALID_ARGUMENT: not such a line, rounds below 1 or in the
// wrong order. NOT_FOUND: no trained variable matches.
StatusOr<std::vector<FrozenRounds>> ReadFrozen(std::span<const std::string> lines, const ModelLayout& layout);

// A float64 scalar from the number of a task's base version: 0 in the rounds of `frozen` and 1 in all
// others.
Output TrainedFactor(const Scope& scope, const FrozenRounds& frozen, Output base_version);
// `grads` of `elements`, with its frozen stretches multiplied by `factor`, a float32 scalar.
Output ScaleStretches(const Scope& scope, const FrozenRounds& frozen, Output grads, int64_t elements, Output factor);

}  // namespace rivulet
