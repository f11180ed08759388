// The scalar that no client declares. A spec that has one of this name (ScalarSpec) is given the sum of weight × square
// of the L2 norm of the part "delta", which whoever folds an update measures. An update of a square above 2^32 − 1 is
// refused.
#pragma once

namespace rivulet {

inline constexpr char kSquaredNorm[] = "squared_norm";

}  // namespace rivulet
