// Points of a sweep: the settings to try, as scenario keys with their values.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"

namespace rivulet {

// Keys of a scenario and values as `--set` takes them, in the order of the axes.
using SweepPoint = std::vector<std::pair<std::string, std::string>>;

struct SweepAxes {
  // "KEY=VALUE,VALUE…": every value of one key with every value of the others. A comma within brackets, braces or
  // quotes is part of its value.
  std::vector<std::string> grids;
  // The same, where the n-th value of one key goes with the n-th of the others; all have equally many.
  std::vector<std::string> lists;
  // "KEY=LOW:HIGH", drawn evenly, or "KEY=log:LOW:HIGH", drawn evenly by magnitude; four digits that count.
  std::vector<std::string> randoms;
  int64_t draws = 0;  // of all random keys together
  uint64_t seed = 1;  // of the draws: the first n of more draws are those of n
};

// Each of the grid with each of the list with each of the draws, the last varying fastest; one point without keys where
// there are no axes. INVALID_ARGUMENT: an axis that is none, lists of unequal length, a key that two axes have,
// random keys without draws, or more than 10,000 points.
StatusOr<std::vector<SweepPoint>> PointsOf(const SweepAxes& axes);

// "KEY=VALUE, KEY=VALUE"; "as it is" of a point without keys.
std::string PointName(const SweepPoint& point);

}  // namespace rivulet
