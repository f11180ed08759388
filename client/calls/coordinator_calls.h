// Calls to a coordinator, repeated while it cannot be reached. A call that fails with UNAVAILABLE or DEADLINE_EXCEEDED
// is retried with backoff until the stop signal, or until its task is cancelled, or CallOptions::max_tries times. A
// fetch resumes at the offset reached, and a submission where its bytes begin to differ from the staged ones.
//
// No download exceeds a bound known before it starts, for any announcement or data of the coordinator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>

#include "client/calls/backoff.h"
#include "client/calls/send_submission.h"
#include "client/calls/stop_signal.h"
#include "client/calls/upload_pace.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// Most bytes of a plan, unless the site's budget says otherwise. A plan is read before anything is known of it.
inline constexpr int64_t kMaxPlanBytes = 64'000'000;
inline constexpr int64_t kAnyBytes = std::numeric_limits<int64_t>::max();  // for calls within one process

struct CallOptions {
  BackoffOptions backoff;
  int64_t chunk_bytes = kSubmissionChunkBytes;
  int64_t max_upload_rate = 0;  // in bytes per second; 0: no limit
  // Transient errors in a row after which a call returns the last one; 0: it repeats until it is answered.
  int max_tries = 0;
  int64_t max_plan_bytes = kMaxPlanBytes;
  int64_t max_download_bytes = kAnyBytes;  // of any one download: the site's budget
  // Called before each wait, with the error that is retried.
  std::function<void(const Status& status, int64_t wait_ms)> on_retry;
};

// Errors are CANCELLED after Stop, else the coordinator's. Not thread-safe.
class CoordinatorCalls {
 public:
  // Both must outlive this.
  CoordinatorCalls(CoordinatorApi& api, StopSignal& stop, CallOptions options = {})
      : api_(api), stop_(stop), options_(std::move(options)), pace_(options_.max_upload_rate) {}

  StatusOr<PollReply> Poll(const PollRequest& request);
  // Returns the whole blob, of at most `most_bytes`. DATA_LOSS: its digest was wrong several times. INVALID_ARGUMENT:
  // more bytes were announced. FAILED_PRECONDITION: more than max_download_bytes. Then nothing of it is kept.
  StatusOr<std::string> Fetch(const Caller& caller, const BlobId& id, int64_t most_bytes);
  // Passes the blob's bytes from `from` on to `sink`, as they arrive, and resumes after a lost connection. The caller
  // checks their digest. Only `most_bytes` limits them, because they go to a disk. Errors: `sink`'s; INVALID_ARGUMENT:
  // too many bytes were announced or arrived; DATA_LOSS: too few arrived, several times; OUT_OF_RANGE: `from` is beyond
  // the blob's end.
  Status FetchTo(const Caller& caller, const BlobId& id, int64_t most_bytes, int64_t from,
                 const std::function<Status(std::span<const std::byte>)>& sink);
  // The bytes of a plan, of at most max_plan_bytes. Errors as Fetch's.
  StatusOr<std::string> FetchPlan(const Caller& caller, const Digest& plan);
  // `bytes` are the update that `submission` announces; the network may hold them a little longer than the call.
  StatusOr<SubmitResult> Submit(const Caller& caller, const Submission& submission,
                                const std::shared_ptr<const std::string>& bytes);
  // Reports a failed task. NOT_FOUND: the coordinator does not know the task, or not any more.
  Status Fail(const Caller& caller, const TaskFailure& failure);

 private:
  // Waits after a transient error and returns true; false: the error is the caller's.
  bool Pause(const Status& status, Backoff& backoff);

  CoordinatorApi& api_;
  StopSignal& stop_;
  const CallOptions options_;
  UploadPace pace_;
};

}  // namespace rivulet
