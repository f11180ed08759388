// A site's ledger of differential privacy, over all runs of one authority. Each answer is charged, with the noise that
// its plan claims and without amplification by sampling, which a site cannot verify. An answer that is sent again is
// charged once, and so is one that is made again without noise of the client, as its bits are the same. The file is
// rewritten and synced before the first byte of an update is sent. Several authorities have a file each, in one folder;
// several processes of a site may share a file.
//
//   rivulet privacy ledger 1
//   charged 1 17            multiplier and tasks, under add-remove; "charged 0.5 3" for a replace-one claim of 1
//   task RUN-r3-a1-CLIENT-0 the newest tasks, so that an update that is sent again costs nothing
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/file_system.h"
#include "engine/base/mutex.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "federated/plan/plan.h"
#include "federated/tasks/task.h"

namespace rivulet {

// The ledger's file below a folder: by the digest of the authority's certificate, or without one "plaintext".
std::string PrivacyLedgerPath(std::string_view folder, const std::optional<Digest>& authority);

// A ledger. Thread-safe, and safe beside other processes with its file: each call reads it under a system lock.
class PrivacyLedger {
 public:
  struct Budget {
    double epsilon = 0, delta = 1e-5;
  };
  // Creates a missing folder. `earlier`: a ledger of an older program, which is added to this one and removed; "":
  // none. DATA_LOSS: not a ledger, or a damaged one; then nothing is charged to a new file. Other errors are those of
  // `files`.
  static StatusOr<std::unique_ptr<PrivacyLedger>> Open(FileSystem& files, std::string path, Budget budget,
                                                       const std::string& earlier = "");

  // The information in an answer beyond an earlier one of the same task: none, or as much again if the client has drawn
  // other noise for it.
  enum class Again : uint8_t { kSameBits, kOtherNoise };
  // Whether the task may still be charged. FAILED_PRECONDITION, with a reason that may leave the site: its charge would
  // exceed the budget, or the plan claims no noise.
  Status Check(const TaskId& task, const Plan& plan, Again again = Again::kSameBits);
  // Charges a task; durable when it returns OK. Errors: as Check, and of `files`, after which nothing may be sent.
  Status Charge(const TaskId& task, const Plan& plan, Again again = Again::kSameBits);

  // Spend of all charges, at the budget's delta.
  StatusOr<double> Spent();
  // "epsilon 1.9 of 8 spent at delta 1e-05".
  StatusOr<std::string> Sentence();

 private:
  PrivacyLedger(FileSystem& files, std::string path, Budget budget)
      : files_(files), path_(std::move(path)), budget_(budget) {}
  // The system's lock, after a limited wait. UNAVAILABLE: another process keeps it.
  StatusOr<std::unique_ptr<FileLock>> Lock() const;
  Status Reload() REQUIRES(mutex_);
  Status Read(const std::string& path, const std::string& text) REQUIRES(mutex_);  // adds its charges
  std::string Text() const REQUIRES(mutex_);
  StatusOr<double> SpentWith(double multiplier) const REQUIRES(mutex_);  // 0: with nothing more
  bool IsCharged(const TaskId& task, Again again) const REQUIRES(mutex_);
  Status CheckLocked(const TaskId& task, const Plan& plan, Again again) REQUIRES(mutex_);

  FileSystem& files_;
  const std::string path_;
  const Budget budget_;
  Mutex mutex_;
  std::map<double, int64_t> charged_ GUARDED_BY(mutex_);  // tasks by multiplier, under add-remove
  std::deque<TaskId> newest_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
