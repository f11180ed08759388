// Names of a metric's counts among the numbers that a client declares of a version: "evaluate/auc/count/0007" is one of
// the counts of the metric "auc". Four digits make the order of bytes that of the counts.
#pragma once

namespace rivulet {

inline constexpr char kCountScalar[] = "/count/";

}  // namespace rivulet
