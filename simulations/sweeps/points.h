// Points of a sweep: the settings to try, as scenario keys with their values.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"

namespace rivulet {

// Keys of a scenario and values in the form of `--set`, in the order of the axes.
using SweepPoint = std::vector<std::pair<std::string, std::string>>;

struct SweepAxes {
  // "KEY=VALUE,VALUE…": every value of one key with every value of the others. A comma within brackets, braces or
  // quotes is part of its value.
  std::vector<std::string> grids;
  // The same, but the n-th value of one key goes with the n-th of the others; all have the same number.
  std::vector<std::string> lists;
  // "KEY=LOW:HIGH", drawn uniformly, or "KEY=log:LOW:HIGH", uniformly by logarithm; with four significant digits.
  std::vector<std::string> randoms;
  int64_t draws = 0;  // for all random keys together
  uint64_t seed = 1;  // of the draws: more draws begin with the same ones
};

// Each point of the grid with each of the list with each draw, the last varying fastest; one point without keys if
// there are no axes. INVALID_ARGUMENT: a malformed axis, lists of unequal length, a key in two axes, random keys
// without draws, or more than 10,000 points.
StatusOr<std::vector<SweepPoint>> PointsOf(const SweepAxes& axes);

// "KEY=VALUE, KEY=VALUE"; "as it is" for a point without keys.
std::string PointName(const SweepPoint& point);

}  // namespace rivulet
