// Runs batches of requests on one thread: its instances of programs and their memory. Used by batcher.cc alone.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "serving/batcher.h"

namespace rivulet {

// Runner of one thread, which has called EnterWorkerThread.
class BatchRunner {
 public:
  explicit BatchRunner(std::span<const int64_t> sizes) : sizes_(sizes.begin(), sizes.end()) {}

  // Runs one step for `batch`, requests of one version with at most max_batch rows in total, and calls their `done`.
  // `times` has an entry per request, with its time in the queue.
  void Run(std::span<BatchedRequest* const> batch, std::span<RequestTimes> times);

 private:
  // One program of a plan, ready to run.
  struct Prepared {
    std::shared_ptr<const Program> program;
    std::unique_ptr<Instance> instance;
    std::vector<AlignedBuffer> feeds, fetches;
    std::vector<std::vector<std::byte>> made;  // outputs that are computed from fetches
  };
  struct OfPlan {
    std::weak_ptr<const ServedPlan> plan;
    std::map<int64_t, Prepared> by_batch;
  };
  StatusOr<Prepared*> Prepare(const std::shared_ptr<const ServedPlan>& plan, int64_t batch);
  Status Step(const LoadedVersion& version, Prepared& prepared, std::span<BatchedRequest* const> batch);
  void Answer(const LoadedVersion& version, Prepared& prepared, std::span<BatchedRequest* const> batch,
              std::span<const RequestTimes> times);

  const std::vector<int64_t> sizes_;
  std::map<const ServedPlan*, OfPlan> plans_;
  AlignedBuffer arena_;
};

}  // namespace rivulet
