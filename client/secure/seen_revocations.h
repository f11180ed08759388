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

// Thread-safe.
class SeenRevocations {
 public:
  // Lists of cohorts are kept as `beside`.revoked-DIGITS.crl; "": in memory alone. `fs` must outlive this.
  SeenRevocations(FileSystem& fs, std::string beside) : record_(fs, std::move(beside)) {}
  // Of `own`'s authority: its folder's, or that of a cohort if it is newer. None: there is none and never was.
  std::optional<RevocationList> Newest(const NodeIdentity& own) EXCLUDES(mutex_);
  // A list that a cohort's check has taken.
  void Note(const std::string& pem, const NodeIdentity& own) EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  RevocationRecord record_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
