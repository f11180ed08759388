// Name of a scalar that clients do not declare: the sum of weight × squared L2 norm of the part "delta". The
// aggregating process measures the norm of each update. A spec requests it by a ScalarSpec of this name. An update
// whose square exceeds 2^32 − 1 is refused.
#pragma once

namespace rivulet {

inline constexpr char kSquaredNorm[] = "squared_norm";

}  // namespace rivulet
