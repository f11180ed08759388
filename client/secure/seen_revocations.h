// Newest revocation list that a client of secure sums has seen, in its folder or with a cohort. A coordinator passes
// lists on and cannot make one. A list with a lower number than the last one is refused, also after a restart.
#pragma once

#include <optional>
#include <string>

#include "certificates/identity.h"
#include "certificates/revocation_record.h"
#include "engine/base/file_system.h"
#include "engine/base/mutex.h"

namespace rivulet {

// Record of the newest list. Thread-safe.
class SeenRevocations {
 public:
  // Lists of cohorts are stored as `beside`.revoked-DIGITS.crl; "": in memory alone. `fs` must outlive this.
  SeenRevocations(FileSystem& fs, std::string beside) : record_(fs, std::move(beside)) {}
  // The list of `own`'s authority: the folder's, or a cohort's if that is newer. Nullopt: there never was one.
  std::optional<RevocationList> Newest(const NodeIdentity& own) EXCLUDES(mutex_);
  // Records a list that a cohort's check has accepted.
  void Note(const std::string& pem, const NodeIdentity& own) EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  RevocationRecord record_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
