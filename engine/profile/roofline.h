// Measured peak performance of this machine: the reference of a profile.
//
// Williams, Waterman & Patterson, "Roofline: an insightful visual performance model for multicore architectures", 2009:
// work of F operations and B bytes takes at least max(F / peak, B / bandwidth). The bandwidth is that of the nearest
// memory that holds B bytes, so that the limit is also right for data that stay in a cache.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace rivulet {

enum class Bound { kCompute, kMemory, kOverhead };
std::string_view Name(Bound bound);  // "compute", "memory", "overhead"

struct Roofline {
  struct Bandwidth {
    double footprint = 0;         // bytes that were walked over again and again
    double bytes_per_second = 0;  // read or written
  };
  int threads = 1;                    // 0: a device beside the host
  double flops_per_second = 0;        // float32 multiply-adds count as two
  std::vector<Bandwidth> bandwidths;  // by growing footprint; never empty

  double BytesPerSecond(double footprint) const;  // between two measured footprints: in between on a logarithmic scale
  // The least that work of this size can take.
  double Seconds(double flops, double bytes) const;
  // What the work's time has most to do with, when a call takes `seconds`: a call shorter than kOverheadSeconds is the
  // cost of calling, whatever it computes.
  Bound BoundOf(double flops, double bytes, double seconds) const;
};
inline constexpr double kOverheadSeconds = 2e-6;

// float32 multiply-adds in registers on this thread, operations a second: the best of many short runs. Another call
// (about 10 ms) may give more, because the clock drifts.
double MeasureFlopsPerSecond();

// Bytes a second that this thread reads of `footprint` bytes, or reads and writes of them, whichever is more: the best
// of several runs of together at most about `seconds`.
double MeasureBytesPerSecond(size_t footprint, double seconds = 0.02);

// Both, on `threads` threads at once: what each of them gets. About 0.2 s and, per thread, 128 MiB for that long.
Roofline MeasureRoofline(int threads = 1);

}  // namespace rivulet
