// Timer of device work: device events around many runs of it. A host clock would mostly measure launch overhead.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "engine/base/status.h"
#include "engine/gpu/gpu_device.h"

namespace rivulet {

struct GpuTiming {
  int64_t runs = 0;                              // total
  double median_seconds = 0, least_seconds = 0;  // per run, over the repetitions
};

class GpuTimer {
 public:
  static StatusOr<GpuTimer> Create(GpuDevice& device);
  // `put` puts one run into the stream, the same each time. After a warm-up run, a captured graph of several runs is
  // timed in seven repetitions of about 2 ms each. Returns errors of `put` and of its work.
  StatusOr<GpuTiming> Measure(const std::function<Status(GpuStream&)>& put);
  GpuStream& stream() { return *stream_; }

 private:
  GpuTimer() = default;
  StatusOr<double> Seconds(const GpuGraph& graph, int64_t launches);

  std::unique_ptr<GpuStream> stream_;
  std::unique_ptr<GpuEvent> begin_, end_;
};

}  // namespace rivulet
