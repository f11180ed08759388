// Arithmetic and comparisons of integer ops on symbolic dimensions. They return a result only if it is the same
// expression, or the same truth value, for every size.
#pragma once

#include <optional>
#include <string_view>

#include "engine/graph/dimension.h"

namespace rivulet {

// The bounds of a - b, which are equal if it is a number.
struct Difference {
  std::optional<int64_t> least, most;
  bool AtLeast(int64_t bound) const { return least && *least >= bound; }
  bool AtMost(int64_t bound) const { return most && *most <= bound; }
};
Difference Between(const Dimension& a, const Dimension& b);

// 1 if `yes`, 0 if `no`, nullopt if neither is true for every size.
std::optional<Dimension> Decided(bool yes, bool no);

// The result of the binary op `op` on two elements: arithmetic, division and remainder, maximum and minimum,
// comparisons and logic. nullopt: it depends on the sizes, or the op is not supported here.
std::optional<Dimension> Combined(std::string_view op, const Dimension& a, const Dimension& b);

}  // namespace rivulet
