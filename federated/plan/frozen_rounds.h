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
  int64_t from = 1, until = 1;  // both included
  // Of a flat vector as long as what is trained: its stretches that are frozen then, ascending, none next to another.
  struct Stretch {
    int64_t first = 0, count = 0;
    bool operator==(const Stretch&) const = default;
  };
  std::vector<Stretch> stretches;
};

// Of each line "PATTERN=FROM..UNTIL" or "PATTERN=FROM..". INVALID_ARGUMENT: no such line, rounds below 1 or the wrong
// way round. NOT_FOUND: no variable that is trained matches.
StatusOr<std::vector<FrozenRounds>> ReadFrozen(std::span<const std::string> lines, const ModelLayout& layout);

// A float64 scalar: 0 in the rounds of `frozen` and 1 in all others, of the number of the version that a task begins
// with.
Output TrainedFactor(const Scope& scope, const FrozenRounds& frozen, Output base_version);
// `grads` of `elements`, whose frozen stretches are multiplied by `factor`, a float32 scalar.
Output ScaleStretches(const Scope& scope, const FrozenRounds& frozen, Output grads, int64_t elements, Output factor);

}  // namespace rivulet
