// Intake of updates, sites' partial sums and clients' states from the network: staged completely, read, and only then
// given to the owner, a run or an aggregator. Heavy work runs on the calling thread; nothing here depends on the
// owner's lock, a machine or a database.
//
//   Begin… → Open → (Resume Write*)* → Complete → read → [the owner takes it in] → Release, Forget
//                                         └── from here on no writer and no Cancel reaches it
//
// Owners call Begin… and Cancel under their locks: neither waits for a disk. Open, the writer's calls and Take… are
// made with no lock held.
//
// Memory: the staging budget for any cohort; beyond it uploads are in unlinked files.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coordinator/intake/distrusted_sites.h"
#include "coordinator/intake/site_partial.h"
#include "coordinator/intake/staging.h"
#include "coordinator/intake/upload.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "federated/aggregation/aggregation.h"
#include "federated/aggregation/update.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

class Tracer;  // engine/profile/tracer.h

// A complete upload with its declared record and its parts, which borrow from the upload's bytes.
struct ArrivedUpdate {
  TaskRecord record;  // without the norm, which the fold computes
  std::vector<PartView> parts;
  // Borrows from this object.
  UpdateView view(int64_t base_version) const { return {record.task, base_version, parts, record.declared}; }
};

// Reads the bytes of a complete upload. INVALID_ARGUMENT, with an error for its sender: it is no Update message, or
// declares no number of examples. Its values are checked later, by the fold, in one pass.
StatusOr<ArrivedUpdate> ReadUpdate(const Upload::Whole& whole);

// The most bytes of an update of a plan with this aggregation.
int64_t MostUpdateBytes(const AggregationSpec& spec);

// Why an upload of so many bytes is refused, `what` being "an update"; "": it is not. Announced sizes are checked
// before any memory is reserved.
std::string WrongSize(std::string_view what, int64_t bytes, int64_t most);

// A writer that reports a refusal, for `reason`.
std::unique_ptr<ChunkWriter> RefusedWriter(std::string reason);

// The uploads under way of one owner. Thread-safe.
class Intake {
 public:
  // Uploads beyond `staging_bytes` are in files in `folder`. `stopped`: whether the owner may resume, so that
  // interrupted uploads are requested again and not refused; null: never. `tracer` may be null.
  Intake(std::string folder, int64_t staging_bytes, std::function<bool()> stopped = nullptr, Tracer* tracer = nullptr)
      : staging_(std::move(folder), staging_bytes), stopped_(std::move(stopped)), tracer_(tracer) {}

  // The owner's handlers of complete submissions, called on the thread of the last bytes, without a lock of Intake. The
  // bytes are valid until `release` is called, or else until the handler returns.
  using Release = std::function<void()>;
  using TakeUpdate = std::function<StatusOr<SubmitResult>(const Upload::Whole& whole, StatusOr<ArrivedUpdate> update)>;
  using TakePartial = std::function<StatusOr<SubmitResult>(StatusOr<SitePartial> partial,
                                                           std::span<const std::byte> bytes, const Release& release)>;
  using TakeBytes = std::function<StatusOr<SubmitResult>(std::span<const std::byte> bytes)>;
  using TakeState = std::function<StatusOr<SubmitResult>(std::string state)>;
  // A submission that has begun or is already decided. Cancel applies to it, and Open gives its writer.
  class Begun {
   public:
    using Opener = std::function<StatusOr<std::unique_ptr<ChunkWriter>>()>;
    explicit Begun(Opener open) : open_(std::move(open)) {}
    Begun(std::unique_ptr<ChunkWriter> decided) : decided_(std::move(decided)) {}
    // Call once, with no lock held: beyond the budget it opens a file. Errors as Upload::TakeOver, except for a
    // cancellation: its writer reports a refusal, or the error is UNAVAILABLE if the owner may resume.
    StatusOr<std::unique_ptr<ChunkWriter>> Open() && { return open_ ? open_() : std::move(decided_); }

   private:
    Opener open_;
    std::unique_ptr<ChunkWriter> decided_;
  };
  // Each begins the upload with this `key` (for an update its task, or a later step of it), or takes over the one that
  // is under way.
  Begun BeginUpdate(const Submission& submission, TakeUpdate take);
  // An invalid partial sum is its site's fault, not its clients': that process is not trusted any more. Its sums go to
  // `files`, which must outlive this; null: to memory.
  Begun BeginPartial(const std::string& key, const Caller& site, const Submission& submission, AggregationSpec spec,
                     int64_t base_version, TakePartial take, SumFiles* files = nullptr);
  Begun BeginBytes(const std::string& key, const Submission& submission, TakeBytes take);
  Begun BeginState(const std::string& key, const Submission& submission, TakeState take);
  // Sites whose partial sum was refused.
  const DistrustedSites& distrusted() const { return distrusted_; }

  // Cancels an upload, if any is under way, because its task was resolved without it, for `reason`.
  void Cancel(const std::string& key, const std::string& reason);
  void CancelAll(const std::string& reason);

  int64_t memory_in_use() const { return staging_.memory_in_use(); }

 private:
  using TakeWhole = std::function<StatusOr<SubmitResult>(const Upload::Whole& whole, const Release& release)>;
  Begun Begin(const std::string& key, const Submission& submission, TakeWhole take);
  StatusOr<SubmitResult> End(const std::string& key, Upload& upload, int64_t writer, const Digest& identity,
                             const TakeWhole& take);
  // The result for a cancelled submission.
  StatusOr<SubmitResult> ResultOf(const Status& cancelled) const;
  // Cancels the upload. Its memory is freed at once, a file with the next call that holds no lock.
  void Discard(Upload& upload, const std::string& reason) EXCLUDES(mutex_);
  void CloseDiscarded() EXCLUDES(mutex_);
  // Null: there is no upload of this key, or not `only` if that is given.
  std::shared_ptr<Upload> Remove(const std::string& key, const Upload* only = nullptr);

  Staging staging_;
  const std::function<bool()> stopped_;
  Tracer* const tracer_;
  DistrustedSites distrusted_;
  mutable Mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Upload>> uploads_ GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<StagedBytes>> discarded_ GUARDED_BY(mutex_);  // files
};

}  // namespace rivulet
