// Counts and latencies of one label's requests, for metrics and for Triton's statistics.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "engine/base/status.h"
#include "serving/batcher.h"

namespace rivulet {

// Counters of one label. Thread-safe; a request costs a few atomic additions.
class ModelCounts {
 public:
  // Upper bounds of the latency buckets, in microseconds.
  static constexpr std::array<int64_t, 10> kBounds = {250,    500,    1'000,   2'500,   5'000,
                                                      10'000, 25'000, 100'000, 500'000, 2'500'000};

  void Tell(const Status& status, int64_t rows, const RequestTimes& times) {
    const auto add = [](std::atomic<int64_t>& count, int64_t by) { count.fetch_add(by, std::memory_order_relaxed); };
    const auto whole = times.queue + times.compute;
    add(status.ok() ? answered : failed, 1);
    add(status.ok() ? answered_ns : failed_ns, whole.count());
    if (!status.ok()) return;
    add(examples, rows);
    add(queue_ns, times.queue.count());
    add(compute_ns, times.compute.count());
    const int64_t us = std::chrono::duration_cast<std::chrono::microseconds>(whole).count();
    size_t bound = 0;
    while (bound < kBounds.size() && us > kBounds[bound]) ++bound;
    add(by_latency[bound], 1);
  }

  std::atomic<int64_t> answered = 0, failed = 0, examples = 0;  // requests, requests, rows
  std::atomic<int64_t> answered_ns = 0, failed_ns = 0, queue_ns = 0, compute_ns = 0;
  std::array<std::atomic<int64_t>, kBounds.size() + 1> by_latency = {};
};

}  // namespace rivulet
