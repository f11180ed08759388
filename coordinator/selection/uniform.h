// Uniform selection: each cohort of `count` names is equally likely (McMahan et al. 2017, algorithm 1: "random set of m
// clients").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rivulet {

// Draws min(count, candidates) names without replacement, in the order drawn. `sorted_candidates` is in byte order, so
// that the draw depends on the set of names alone. A pure function of its arguments (stream Purpose::kSelect of
// `round`, ordinal attempt - 1).
std::vector<std::string> SelectUniform(const std::vector<const std::string*>& sorted_candidates, int64_t count,
                                       uint64_t seed, int64_t round, int64_t attempt);

}  // namespace rivulet
