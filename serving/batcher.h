// Batches of requests and the threads that run them. Requests wait in a queue for each version. A free thread takes
// rows of the oldest request's queue, at most as many as a batch holds, and runs them as one padded step of a program.
// It takes as many as give the most rows a second, by the times of earlier steps.
//
// A thread that is idle takes a request at once. While all are busy a full batch goes before one that is not full and
// younger than the timeout. A request that cannot be answered before its deadline is refused when it comes, and one
// whose caller has gone is dropped when its turn comes.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/tensor/tensor.h"
#include "serving/loaded_version.h"

namespace rivulet {

struct BatchOptions {
  int64_t max_batch = 64;
  std::chrono::microseconds timeout{1000};
  int64_t max_queue = 1000;    // waiting requests, of all versions
  int threads = 0;             // 0: one per core
  std::vector<int64_t> sizes;  // compiled batch sizes, ascending; empty: 1, 2, 4 … max_batch
  int64_t fixed = 0;           // the size of all steps, so that answers do not depend on neighbours; 0: off
  std::vector<int64_t> Sizes() const;
};
// INVALID_ARGUMENT: a number out of range, sizes that are not ascending or do not end with max_batch.
Status CheckBatchOptions(const BatchOptions& options);

// The times of a request's wait and of its step.
struct RequestTimes {
  std::chrono::nanoseconds queue{0}, compute{0};
};

struct BatchedRequest {
  std::shared_ptr<const LoadedVersion> version;
  int64_t rows = 1;
  // In order of the plan's inputs: rows × the input's row, row-major. Valid until `done` has returned.
  std::vector<const std::byte*> inputs;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::function<bool()> gone;  // whether the caller has gone; null: never
  // Called once, on a thread of the batcher, or before Submit returns. Outputs in order of the plan's outputs, with
  // `rows` rows; they are valid during the call. Does not block.
  std::function<void(const Status& status, std::span<const TensorView> outputs, const RequestTimes& times)> done;
};

// Queue of requests, and the threads that run them. Thread-safe.
class Batcher {
 public:
  // The options must have been checked.
  explicit Batcher(BatchOptions options);
  ~Batcher();  // runs all waiting requests

  // INVALID_ARGUMENT: no rows, or more than max_batch. RESOURCE_EXHAUSTED: the queue is full, or the deadline cannot be
  // met. `done` receives these errors.
  void Submit(BatchedRequest request);

  const BatchOptions& options() const { return options_; }
  std::span<const int64_t> sizes() const { return sizes_; }
  int64_t waiting() const { return waiting_.load(std::memory_order_relaxed); }
  int64_t steps() const { return steps_.load(std::memory_order_relaxed); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    BatchedRequest request;
    Clock::time_point came;
  };
  struct Queue {
    std::shared_ptr<const LoadedVersion> version;
    std::deque<Waiting> requests;
    int64_t rows = 0;
  };

  Status Refusal(const BatchedRequest& request, Clock::time_point now) REQUIRES(mutex_);
  std::list<Queue>::iterator Choose(Clock::time_point now) REQUIRES(mutex_);
  size_t CountOf(const Queue& queue) const;  // the number of its requests in the next step
  std::vector<Waiting> Take(std::list<Queue>::iterator queue) REQUIRES(mutex_);
  void Work();

  const BatchOptions options_;
  const std::vector<int64_t> sizes_;
  Mutex mutex_;
  CondVar changed_;
  std::list<Queue> queues_ GUARDED_BY(mutex_);  // none is empty
  int64_t queued_rows_ GUARDED_BY(mutex_) = 0;
  int idle_ GUARDED_BY(mutex_) = 0;
  bool closing_ GUARDED_BY(mutex_) = false;
  std::atomic<int64_t> waiting_ = 0, steps_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace rivulet
