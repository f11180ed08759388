// Uniform selection: each cohort of `count` members is equally likely (McMahan et al. 2017, algorithm 1: "random set of
// m clients").
#pragma once

#include <cstdint>
#include <vector>

namespace rivulet {

// The ranks, 0 .. members - 1 in byte order of the names, of min(count, members) members without replacement, in the
// order drawn: so the draw depends on the set of names alone. A pure function of its arguments (stream Purpose::kSelect
// of `round`, ordinal attempt - 1). O(count).
std::vector<int64_t> SelectUniform(int64_t members, int64_t count, uint64_t seed, int64_t round, int64_t attempt);

}  // namespace rivulet
