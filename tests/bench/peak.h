// What this machine can do at best on one thread, measured in this run.
#pragma once

#include <algorithm>

#include "engine/profile/roofline.h"

namespace rivulet::bench {

// float32 multiply-adds in registers, 10^9 operations a second: the best of many short runs. Runs again at each call
// (about 10 ms) and returns the best so far, because the clock drifts.
inline double PeakGflops() {
  static double best = 0;
  return best = std::max(best, MeasureFlopsPerSecond() / 1e9);
}

// Memory that no cache holds, 10^9 bytes a second; measured once.
inline double ReadGigabytes() {
  static const double best = MeasureBytesPerSecond(size_t{256} << 20, 0.5) / 1e9;
  return best;
}

}  // namespace rivulet::bench
