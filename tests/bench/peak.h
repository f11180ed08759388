// The machine's peak performance on one thread, measured in this run.
#pragma once

#include <algorithm>

#include "engine/profile/roofline.h"

namespace rivulet::bench {

// Float32 multiply-adds in registers, 10^9 operations per second: the best of many short runs. Every call runs again
// (about 10 ms) and returns the best so far, because the clock rate drifts.
inline double PeakGflops() {
  static double best = 0;
  return best = std::max(best, MeasureFlopsPerSecond() / 1e9);
}

// Bandwidth of memory beyond all caches, 10^9 bytes per second; measured once.
inline double ReadGigabytes() {
  static const double best = MeasureBytesPerSecond(size_t{256} << 20, 0.5) / 1e9;
  return best;
}

}  // namespace rivulet::bench
