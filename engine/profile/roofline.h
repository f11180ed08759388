// Measured peak performance of this machine: the reference of a profile.
//
// Williams, Waterman & Patterson, "Roofline: an insightful visual performance model for multicore architectures", 2009:
// work of F operations and B bytes takes at least max(F / peak, B / bandwidth). The bandwidth is that of the nearest
// memory that holds B bytes, so the limit is also right for data in caches.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace rivulet {

enum class Bound { kCompute, kMemory, kOverhead };
std::string_view Name(Bound bound);  // "compute", "memory", "overhead"

struct Roofline {
  struct Bandwidth {
    double footprint = 0;         // bytes that are accessed repeatedly
    double bytes_per_second = 0;  // read or written
  };
  int threads = 1;                    // 0: a device that works beside the host
  double flops_per_second = 0;        // float32; a multiply-add counts as two
  std::vector<Bandwidth> bandwidths;  // by increasing footprint; never empty

  double BytesPerSecond(double footprint) const;  // interpolates logarithmically between measured footprints
  // Returns the minimum time of work of this size.
  double Seconds(double flops, double bytes) const;
  // Returns the main limit of work whose calls take `seconds`. A call shorter than kOverheadSeconds is limited by the
  // cost of calling, regardless of its computation.
  Bound BoundOf(double flops, double bytes, double seconds) const;
};
inline constexpr double kOverheadSeconds = 2e-6;

// Measures float32 multiply-adds in registers on this thread, in operations per second: the best of many short runs.
// Another call (about 10 ms) may give more, because the clock rate drifts.
double MeasureFlopsPerSecond();

// Measures bytes per second that this thread reads, or reads and writes, whichever is more, in `footprint` bytes of
// memory. Returns the best of several runs that take at most about `seconds` in total.
double MeasureBytesPerSecond(size_t footprint, double seconds = 0.02);

// Measures both on `threads` threads at once, per thread. Takes about 0.2 s and, meanwhile, 128 MiB per thread.
Roofline MeasureRoofline(int threads = 1);

}  // namespace rivulet
