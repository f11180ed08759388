// Names of a metric's counts among a client's declared scalars: "evaluate/auc/count/0007" is one of the counts of the
// metric "auc". Numbers have four digits, so that byte order is numeric order.
#pragma once

namespace rivulet {

inline constexpr char kCountScalar[] = "/count/";

}  // namespace rivulet
