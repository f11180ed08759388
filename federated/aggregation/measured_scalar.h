// The scalar that no client declares. A spec that has one of this name (ScalarSpec) is given the sum of weight × square
// of the L2 norm of the part "delta", which whoever folds an update measures. It counts at most 2^32 − 1.
#pragma once

namespace rivulet {

inline constexpr char kSquaredNorm[] = "squared_norm";

}  // namespace rivulet
