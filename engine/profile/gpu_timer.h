// Timer of work on a device, by device events around many runs of it. A host clock would mostly measure the launching.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "engine/base/status.h"
#include "engine/gpu/gpu_device.h"

namespace rivulet {

struct GpuTiming {
  int64_t runs = 0;                              // in all
  double median_seconds = 0, least_seconds = 0;  // of one run, over the repetitions
};

class GpuTimer {
 public:
  static StatusOr<GpuTimer> Create(GpuDevice& device);
  // `put` puts one run into the stream, the same each time. Runs once to warm up, then as one captured graph of several
  // runs, so often that a repetition takes about 2 ms; seven repetitions. Errors of `put` and of what it put there.
  StatusOr<GpuTiming> Measure(const std::function<Status(GpuStream&)>& put);
  GpuStream& stream() { return *stream_; }

 private:
  GpuTimer() = default;
  StatusOr<double> Seconds(const GpuGraph& graph, int64_t launches);

  std::unique_ptr<GpuStream> stream_;
  std::unique_ptr<GpuEvent> begin_, end_;
};

}  // namespace rivulet
