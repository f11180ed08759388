#include "serving/batcher.h"

#include <algorithm>
#include <cstring>

#include "engine/base/available_cores.h"
#include "serving/batch_runner.h"

namespace rivulet {

std::vector<int64_t> BatchOptions::Sizes() const {
  if (fixed > 0) return {fixed};
  if (!sizes.empty()) return sizes;
  std::vector<int64_t> all;
  for (int64_t size = 1; size < max_batch; size *= 2) all.push_back(size);
  all.push_back(max_batch);
  return all;
}

Status CheckBatchOptions(const BatchOptions& options) {
  constexpr int64_t kMostRows = 65536;
  if (options.max_batch < 1 || options.max_batch > kMostRows)
    return InvalidArgument("--max-batch is {}, and a batch has 1 to {} rows", options.max_batch, kMostRows);
  if (options.fixed != 0 && options.fixed != options.max_batch)
    return InvalidArgument("--fixed-batch {} and --max-batch {} differ; leave --max-batch out", options.fixed,
                           options.max_batch);
  if (options.fixed != 0 && !options.sizes.empty())
    return InvalidArgument("--fixed-batch is the one batch size; leave --batch-sizes out");
  int64_t last = 0;
  for (const int64_t size : options.sizes) {
    if (size <= last) return InvalidArgument("--batch-sizes grow from 1 on, and {} follows {}", size, last);
    last = size;
  }
  if (!options.sizes.empty() && last != options.max_batch)
    return InvalidArgument("the largest of --batch-sizes is {}, and --max-batch is {}; make them equal", last,
                           options.max_batch);
  return absl::OkStatus();
}

Batcher::Batcher(BatchOptions options) : options_(std::move(options)), sizes_(options_.Sizes()) {
  const int threads = options_.threads > 0 ? options_.threads : AvailableCores();
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

Batcher::~Batcher() {
  {
    MutexLock lock(mutex_);
    closing_ = true;
  }
  changed_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

// If every thread is busy, a request waits for the rows before it, spread over the threads, and for running steps.
Status Batcher::Refusal(const BatchedRequest& request, Clock::time_point now) {
  if (request.rows < 1 || request.rows > options_.max_batch)
    return InvalidArgument("the request has {} examples, and a batch has 1 to {}; send them in several requests",
                           request.rows, options_.max_batch);
  if (waiting_.load(std::memory_order_relaxed) >= options_.max_queue)
    return ResourceExhausted("{} requests wait already, and no more may (--max-queue); try again later",
                             options_.max_queue);
  if (request.deadline == Clock::time_point::max()) return absl::OkStatus();
  const auto step = request.version->plan->StepTime(options_.max_batch);
  const auto threads = static_cast<int64_t>(threads_.size());
  const int64_t steps_before = idle_ > 0 ? 0 : 1 + queued_rows_ / options_.max_batch / threads;
  const auto own = request.version->plan->StepTime(request.rows);
  if (now + steps_before * step + own > request.deadline)
    return ResourceExhausted("the request cannot be answered before its deadline: {} wait before it; try again later",
                             waiting_.load(std::memory_order_relaxed));
  return absl::OkStatus();
}

void Batcher::Submit(BatchedRequest request) {
  const auto now = Clock::now();
  Status refused;
  {
    MutexLock lock(mutex_);
    refused = Refusal(request, now);
    if (refused.ok()) {
      auto queue = std::ranges::find(queues_, request.version, &Queue::version);
      if (queue == queues_.end()) queue = queues_.insert(queues_.end(), Queue{request.version, {}, 0});
      queue->rows += request.rows;
      queued_rows_ += request.rows;
      queue->requests.push_back({std::move(request), now});
      waiting_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  if (refused.ok()) {
    changed_.NotifyOne();
  } else {
    request.done(refused, {}, {});
  }
}

// The oldest request's queue, unless that request is young and another queue has a full batch.
std::list<Batcher::Queue>::iterator Batcher::Choose(Clock::time_point now) {
  auto oldest = queues_.begin(), full = queues_.end();
  for (auto queue = queues_.begin(); queue != queues_.end(); ++queue) {
    if (queue->requests.front().came < oldest->requests.front().came) oldest = queue;
    if (queue->rows >= options_.max_batch &&
        (full == queues_.end() || queue->requests.front().came < full->requests.front().came))
      full = queue;
  }
  const bool young = now - oldest->requests.front().came < options_.timeout;
  return young && oldest->rows < options_.max_batch && full != queues_.end() ? full : oldest;
}

// Steps are padded to the next batch size: 33 rows in a step of 64 take twice the time of 32, if time grows with rows.
// Remaining rows wait for the next step. If a step costs the same for any number of rows, as for a small model, all
// rows are taken.
size_t Batcher::CountOf(const Queue& queue) const {
  struct Candidate {
    size_t requests = 0;
    double rows_per_ns = 0;
  };
  std::vector<Candidate> candidates;
  size_t requests = 0;
  int64_t rows = 0;
  double best = 0;
  for (const int64_t size : sizes_) {
    while (requests < queue.requests.size() && rows + queue.requests[requests].request.rows <= size)
      rows += queue.requests[requests++].request.rows;
    if (requests == 0) continue;
    const auto step = queue.version->plan->StepTime(size);
    if (step.count() > 0)
      candidates.push_back({requests, static_cast<double>(rows) / static_cast<double>(step.count())});
    if (requests == queue.requests.size()) break;
  }
  for (const Candidate& candidate : candidates) best = std::max(best, candidate.rows_per_ns);
  // Times are uncertain by some percent; at about equal rates more rows are better, because fewer wait.
  constexpr double kAboutAsFast = 0.9;
  while (!candidates.empty()) {
    if (candidates.back().rows_per_ns >= kAboutAsFast * best) return candidates.back().requests;
    candidates.pop_back();
  }
  return requests;  // no step of this plan has run
}

std::vector<Batcher::Waiting> Batcher::Take(std::list<Queue>::iterator queue) {
  std::vector<Waiting> taken;
  int64_t rows = 0;
  for (size_t left = CountOf(*queue); left > 0; --left) {
    rows += queue->requests.front().request.rows;
    taken.push_back(std::move(queue->requests.front()));
    queue->requests.pop_front();
  }
  queue->rows -= rows;
  queued_rows_ -= rows;
  waiting_.fetch_sub(static_cast<int64_t>(taken.size()), std::memory_order_relaxed);
  if (queue->requests.empty()) queues_.erase(queue);
  return taken;
}

void Batcher::Work() {
  EnterWorkerThread();
  BatchRunner runner(sizes_);
  while (true) {
    std::vector<Waiting> taken;
    {
      MutexLock lock(mutex_);
      ++idle_;
      while (queues_.empty() && !closing_) changed_.Wait(mutex_);
      --idle_;
      if (queues_.empty()) return;
      taken = Take(Choose(Clock::now()));
      if (!queues_.empty() && idle_ > 0) changed_.NotifyOne();
    }
    // A caller that has gone, or whose deadline has passed, costs no step.
    const auto now = Clock::now();
    std::vector<BatchedRequest*> batch;
    std::vector<RequestTimes> times;
    for (Waiting& waiting : taken) {
      BatchedRequest& request = waiting.request;
      if (request.gone && request.gone()) {
        request.done(Cancelled("the caller has gone"), {}, {now - waiting.came});
      } else if (request.deadline < now) {
        request.done(DeadlineExceeded("the request's deadline passed while it waited"), {}, {now - waiting.came});
      } else {
        batch.push_back(&request);
        times.push_back({now - waiting.came});
      }
    }
    if (batch.empty()) continue;
    runner.Run(batch, times);
    steps_.fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace rivulet
