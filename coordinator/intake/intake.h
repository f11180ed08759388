// Intake of uploads from the network: staged completely, read, and only then aggregated. Heavy work runs on the calling
// thread; nothing here depends on the coordinator's lock, its machine or a database.
//
//   Begin → (Resume Write*)* → Complete → ReadUpdate → [the machine says fold] → RoundAccumulator::Take → Release,
//   Forget
//                                  └── from here on no writer and no Cancel reaches it
//
// A site's partial sum takes the same way: Complete → ReadSitePartial (site_partial.h) → [the machine takes all its
// tasks] → RoundAccumulator::Merge.
//
// Memory: the staging budget for any cohort; beyond it uploads are in unlinked files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "coordinator/intake/staging.h"
#include "coordinator/intake/upload.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "federated/aggregation/aggregation.h"
#include "federated/aggregation/update.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// A complete upload as it is read: what it says of itself, and its parts, which borrow from the upload's bytes.
struct ArrivedUpdate {
  TaskRecord record;  // its norm is for whoever folds
  std::vector<PartView> parts;
  // Borrows from this.
  UpdateView view(int64_t base_version) const { return {record.task, base_version, parts, record.declared}; }
};

// Of the bytes of a whole upload. INVALID_ARGUMENT: it is no Update message, or declares no number of examples; a
// sentence for whoever sent it. Its values are not looked at: the fold does, in one pass.
StatusOr<ArrivedUpdate> ReadUpdate(const Upload::Whole& whole);

// No update of a plan with this aggregation has more bytes.
int64_t MostUpdateBytes(const AggregationSpec& spec);

// Thread-safe.
class Intake {
 public:
  // Files of uploads beyond `staging_bytes` lie in `folder`.
  Intake(std::string folder, int64_t staging_bytes) : staging_(std::move(folder), staging_bytes) {}

  // Begins the upload that is known as `key`, of a task that task, or takes over the one that is on its way. Errors are
  // Upload::TakeOver's.
  struct Begun {
    std::shared_ptr<Upload> upload;
    Upload::Turn turn;
  };
  StatusOr<Begun> Begin(const std::string& key, const Submission& submission);
  // The update is folded or refused; its bytes go with the upload's last holder, or by Upload::Release.
  void Forget(const std::string& key) { (void)Remove(key); }
  // The task is resolved without it, for `reason`; does nothing where nothing of it is on its way.
  void Cancel(const std::string& key, const std::string& reason);
  void CancelAll(const std::string& reason);

  int64_t memory_in_use() const { return staging_.memory_in_use(); }

 private:
  std::shared_ptr<Upload> Remove(const std::string& key);  // null: none

  Staging staging_;
  mutable Mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Upload>> uploads_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
