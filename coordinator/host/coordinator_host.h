// One CoordinatorApi in front of one run or many, for clients that serve any run with work for them.
//
// An idle single client is offered to every run in turn, beginning after the one that it worked for last, so that no
// run withholds clients from another. While it works for one, the others learn that it is present. It receives the end
// only once all runs have ended. Its task for a run that has ended is cancelled. A host that outlives its runs asks it
// to wait instead, and also cancels its task if an operator has stopped the run.
//
// A site with many clients belongs to the run that it names, and to no other; without a name it gets the first run
// under way. So an aggregator serves one run after the other. If its run has ended and another is present or expected,
// it learns that its run is gone.
//
// The host never influences a run's results: the run receives the same polls as it would alone, later or sooner.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "coordinator/coordinator.h"
#include "engine/base/mutex.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// Host of runs. Thread-safe. Runs stay until it is destroyed, also when over: clients may ask for earlier tasks.
class CoordinatorHost final : public CoordinatorApi {
 public:
  // `outlives_runs`: callers never receive the end of all runs; they wait for the next run.
  explicit CoordinatorHost(bool outlives_runs = false) : outlives_runs_(outlives_runs) {}

  using Runs = std::vector<std::shared_ptr<Coordinator>>;
  Runs runs() const;  // in the order in which they were added
  // ALREADY_EXISTS: there is a run of this id.
  Status Add(std::shared_ptr<Coordinator> run);
  // Blocks until every run is over: OK when all have finished, else the error of the first that did not, in the order
  // in which they were added.
  Status WaitForAll();
  void Stop();  // every run

  // NOT_FOUND: the caller names a run that is not here. A run's error is the reply only if no run has another
  // reply.
  StatusOr<PollReply> Poll(const PollRequest& request) override;
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller& caller, const BlobId& blob, int64_t offset) override;
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override;
  Status Fail(const Caller& caller, const TaskFailure& failure) override;
  void AwaitWork(const Caller& caller, uint64_t epoch, int64_t timeout_ms) override;
  void SetListener(NewsListener* listener) override;
  StatusOr<SubmitResult> SubmitInPlace(const Caller& caller, Partial&& partial,
                                       std::span<const TaskRecord> records) override;
  StatusOr<std::shared_ptr<const Model>> FetchInPlace(const Caller& caller, const BlobId& blob) override;

 private:
  // The run that the caller names; all runs if it names none. NOT_FOUND.
  StatusOr<Runs> RunsOf(const Caller& caller) const;
  // Answers a site's poll; `own`: the run that it names, null if it names none.
  StatusOr<PollReply> PollOfMany(const PollRequest& request, const Runs& all, Coordinator* own) const;
  // Calls `ask` for each of them, until one answers anything but NOT_FOUND.
  template <typename Ask>
  auto AskEach(const Caller& caller, const Ask& ask) const -> decltype(ask(std::declval<Coordinator&>()));

  const bool outlives_runs_;
  mutable Mutex mutex_;
  Runs runs_ GUARDED_BY(mutex_);
  NewsListener* listener_ GUARDED_BY(mutex_) = nullptr;
};

}  // namespace rivulet
