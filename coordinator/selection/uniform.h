// Uniform selection: each cohort is equally likely (McMahan et al. 2017, algorithm 1: "random set of m clients").
#pragma once

#include <cstdint>

#include "federated/random/lazy_permutation.h"
#include "federated/tasks/task.h"

namespace rivulet {

// The order in which members are asked, as their ranks 0 .. members - 1 in byte order of the names: the first k of it
// are a cohort of k without replacement, and who comes next replaces one of them. It depends on the set of names alone.
// A pure function of its arguments (stream Purpose::kSelect of `round`, ordinal attempt - 1, op the kind): what is
// drawn of one kind moves no draw of another. `round` is the one that is trained, or whose version is measured.
LazyPermutation UniformOrder(int64_t members, uint64_t seed, int64_t round, int64_t attempt,
                             TaskKind kind = TaskKind::kTrain);

}  // namespace rivulet
