// One CoordinatorApi in front of one run or many, for clients that serve whichever has work for them.
//
// A client that speaks for itself and has nothing in hand is asked for by every run in turn, beginning after the one
// that it worked for last, so that no run keeps the clients of another from it; while it works for one, the others hear
// that it is there. It is told that it is over when that is so of every run, and what it has in hand for a run that has
// ended is cancelled. A host that outlives its runs asks it to wait instead, and what is in hand for a run that an
// operator has stopped is cancelled too.
//
// A site of many names is one of the run that it names, and of no other; one that names none, of the first that goes
// on. So an aggregator serves one run after the other: when its own is over and another is, or will be, there, it is
// told that its own is not here any more.
//
// What a run computes is not to be seen from here: it hears the same polls as alone, later or sooner.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "coordinator/coordinator.h"
#include "engine/base/mutex.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// Thread-safe. Runs stay until it goes, also when they are over: their clients ask for earlier tasks still.
class CoordinatorHost final : public CoordinatorApi {
 public:
  // `outlives_runs`: callers are never told that all is over; they wait for the run that comes next.
  explicit CoordinatorHost(bool outlives_runs = false) : outlives_runs_(outlives_runs) {}

  using Runs = std::vector<std::shared_ptr<Coordinator>>;
  Runs runs() const;  // in the order in which they were added
  // ALREADY_EXISTS: a run of this id.
  Status Add(std::shared_ptr<Coordinator> run);
  // Blocks until every run is over: OK when all have finished, else why the first of them did not, in the order in
  // which they were added.
  Status WaitForAll();
  void Stop();  // every run

  // NOT_FOUND: the caller names a run that is not here. What a run answers with an error is answered so when none has
  // another answer.
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
  // The run that the caller names, alone; all of them, where it names none. NOT_FOUND.
  StatusOr<Runs> RunsOf(const Caller& caller) const;
  // Of a site; `own`: the run that it names, null where it names none.
  StatusOr<PollReply> PollOfMany(const PollRequest& request, const Runs& all, Coordinator* own) const;
  // `ask` of each of them, until one answers otherwise than that it does not know of it.
  template <typename Ask>
  auto AskEach(const Caller& caller, const Ask& ask) const -> decltype(ask(std::declval<Coordinator&>()));

  const bool outlives_runs_;
  mutable Mutex mutex_;
  Runs runs_ GUARDED_BY(mutex_);
  NewsListener* listener_ GUARDED_BY(mutex_) = nullptr;
};

}  // namespace rivulet
