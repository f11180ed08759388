#include "client/calls/coordinator_calls.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "client/calls/send_submission.h"
#include "federated/updates/block_crcs.h"

namespace rivulet {
namespace {

constexpr int kTransferTries = 3;  // of a blob or an update whose bytes arrive damaged

bool IsTransient(const Status& status) { return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status); }

}  // namespace

bool CoordinatorCalls::Pause(const Status& status, Backoff& backoff) {
  if (!IsTransient(status) || stop_.task_cancelled()) return false;
  if (options_.max_tries > 0 && backoff.tries() + 1 >= options_.max_tries) return false;
  const int64_t wait_ms = backoff.NextMs();
  if (options_.on_retry) options_.on_retry(status, wait_ms);
  return stop_.Sleep(wait_ms);
}

StatusOr<PollReply> CoordinatorCalls::Poll(const PollRequest& request) {
  std::optional<Backoff> backoff;  // a simulation's worker polls a thousand times a second, and never needs one
  for (;;) {
    if (stop_.stopped()) return Cancelled("stopped");
    StatusOr<PollReply> reply = api_.Poll(request);
    if (reply.ok()) return reply;
    if (!backoff) backoff.emplace(options_.backoff, request.caller.name);
    if (!Pause(reply.status(), *backoff)) return stop_.stopped() ? Cancelled("stopped") : reply.status();
  }
}

// Received bytes are kept over lost connections, and only the rest is requested. The digest covers the whole, so a
// restarted coordinator, or another one, may serve the second half. A model's digest covers the content of its file,
// and its parser checks it.
//
// The announced size is checked before memory is allocated, and no more than was announced is kept. A try that starts
// anew may announce another size, which is checked again.
StatusOr<std::string> CoordinatorCalls::Fetch(const Caller& caller, const BlobId& id, int64_t most_bytes) {
  Backoff backoff(options_.backoff, caller.name);
  std::string blob;
  int wrong = 0;
  // One pass opens the blob where the last one ended and reads until the end or an error.
  const auto read_on = [&]() -> Status {
    RIVULET_ASSIGN_OR_RETURN(auto reader, api_.Fetch(caller, id, static_cast<int64_t>(blob.size())));
    const int64_t total = reader->total_bytes();
    if (total > most_bytes) {
      return InvalidArgument("the coordinator announced {} bytes for blob {}, and at most {} are taken", total,
                             id.digest.Hex(), most_bytes);
    }
    if (total > options_.max_download_bytes) {
      return FailedPrecondition("the coordinator announced {} bytes for blob {}, and this site's memory allows {}",
                                total, id.digest.Hex(), options_.max_download_bytes);
    }
    // Beyond a gigabyte, memory grows with the received bytes.
    if (total > 0 && total <= int64_t{1} << 30) blob.reserve(static_cast<size_t>(total));
    for (;;) {
      if (stop_.stopped()) return Cancelled("stopped");
      const StatusOr<std::span<const std::byte>> next = reader->Next();
      if (absl::IsDataLoss(next.status())) ++wrong;
      RIVULET_RETURN_IF_ERROR(next.status());
      const std::span<const std::byte> chunk = *next;
      if (chunk.empty()) break;
      backoff.Reset();
      if (std::ssize(chunk) > total - std::ssize(blob)) {
        blob.clear();
        ++wrong;
        return DataLoss("more than the announced {} bytes arrived for blob {}", total, id.digest.Hex());
      }
      blob.append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
    }
    // Wrong bytes cannot be located, so all are dropped. A few tries: bytes that are wrong each time are wrong at their
    // source.
    if (static_cast<int64_t>(blob.size()) != total ||
        (id.form == BlobId::Form::kBytes && Sha256Of(blob) != id.digest)) {
      const size_t got = blob.size();
      blob.clear();
      ++wrong;
      return DataLoss("{} bytes of {} arrived for blob {}, and they do not have that digest", got, total,
                      id.digest.Hex());
    }
    return absl::OkStatus();
  };
  for (;;) {
    const Status status = read_on();
    if (status.ok()) return blob;
    if (absl::IsDataLoss(status) && wrong < kTransferTries) continue;
    if (!Pause(status, backoff)) return stop_.stopped() ? Cancelled("stopped") : status;
  }
}

Status CoordinatorCalls::FetchTo(const Caller& caller, const BlobId& id, int64_t most_bytes, int64_t from,
                                 const std::function<Status(std::span<const std::byte>)>& sink) {
  Backoff backoff(options_.backoff, caller.name);
  int64_t have = from;
  int wrong = 0;
  const auto read_on = [&]() -> Status {
    RIVULET_ASSIGN_OR_RETURN(auto reader, api_.Fetch(caller, id, have));
    const int64_t total = reader->total_bytes();
    if (total > most_bytes) {
      return InvalidArgument("the coordinator announced {} bytes for blob {}, and at most {} are taken", total,
                             id.digest.Hex(), most_bytes);
    }
    for (;;) {
      if (stop_.stopped()) return Cancelled("stopped");
      RIVULET_ASSIGN_OR_RETURN(const std::span<const std::byte> chunk, reader->Next());
      if (chunk.empty()) break;
      if (std::ssize(chunk) > total - have) {
        return InvalidArgument("more than the announced {} bytes arrived for blob {}", total, id.digest.Hex());
      }
      backoff.Reset();
      RIVULET_RETURN_IF_ERROR(sink(chunk));
      have += std::ssize(chunk);
    }
    if (have == total) return absl::OkStatus();
    return DataLoss("{} bytes of {} arrived for blob {}", have, total, id.digest.Hex());
  };
  for (;;) {
    const Status status = read_on();
    if (status.ok()) return status;
    if (absl::IsDataLoss(status) && ++wrong < kTransferTries) continue;
    if (!Pause(status, backoff)) return stop_.stopped() ? Cancelled("stopped") : status;
  }
}

StatusOr<std::string> CoordinatorCalls::FetchPlan(const Caller& caller, const Digest& plan) {
  return Fetch(caller, {BlobId::Form::kBytes, plan}, options_.max_plan_bytes);
}

// Another process of this name may upload the same task at the same time: each takes the upload over from the other.
// The loser waits, longer each time, until one has had the time to finish; the other then gets the result. Waiting
// times are reset only when more is staged than ever before; otherwise a connection that breaks at the same byte each
// time would be retried without a pause.
StatusOr<SubmitResult> CoordinatorCalls::Submit(const Caller& caller, const Submission& submission,
                                                const std::shared_ptr<const std::string>& bytes) {
  const auto whole = std::as_bytes(std::span(*bytes));
  Backoff backoff(options_.backoff, caller.name);
  BlockCrcs crcs;
  crcs.Append(whole);
  const int64_t chunk_bytes = pace_.ChunkBytes(options_.chunk_bytes);
  int64_t furthest = 0;
  int damaged = 0;
  for (;;) {
    bool began = false;
    const auto at = [&](int64_t offset) -> Status {
      if (stop_.stopped()) return Cancelled("stopped");
      if (!std::exchange(began, true)) {
        if (offset > furthest) backoff.Reset();
        furthest = std::max(furthest, offset);
      }
      const int64_t wait_ms = pace_.WaitMs(std::min(chunk_bytes, std::ssize(whole) - offset));
      if (wait_ms > 0 && !stop_.Sleep(wait_ms)) return Cancelled("stopped");
      return absl::OkStatus();
    };
    StatusOr<SubmitResult> submitted =
        SendSubmission(api_, caller, submission, whole, crcs, {.chunk_bytes = chunk_bytes, .at = at, .holder = bytes});
    if (submitted.ok()) return submitted;
    // Full staging empties as other updates are aggregated, so it is as transient as a lost connection.
    const bool again = absl::IsResourceExhausted(submitted.status()) ||
                       (absl::IsDataLoss(submitted.status()) && ++damaged < kTransferTries);
    const Status status = again ? Unavailable("{}", Message(submitted.status())) : submitted.status();
    if (!Pause(status, backoff)) return stop_.stopped() ? Cancelled("stopped") : submitted.status();
  }
}

// Sent once: a task that the coordinator does not know has ended otherwise.
Status CoordinatorCalls::Fail(const Caller& caller, const TaskFailure& failure) {
  Backoff backoff(options_.backoff, caller.name);
  for (;;) {
    const Status told = api_.Fail(caller, failure);
    if (told.ok() || absl::IsNotFound(told)) return told;
    if (Pause(told, backoff)) continue;
    return stop_.stopped() ? Cancelled("stopped") : told;
  }
}

}  // namespace rivulet
