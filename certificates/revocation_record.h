// The newest valid revocation list of an authority that a process has seen. A list in the folder may be newer, but
// never older. The record is in memory and, if a path is given, in a file, so that a restart keeps it.
//
// An earlier list is signed too, and would admit clients revoked since. So a list is refused if it is missing, damaged,
// signed by another key, or has a lower number than the last one (RFC 5280, section 5.2.3). The last valid one then
// stays in force. An overdue list (nextUpdate) stays in force too.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "certificates/certificate.h"
#include "certificates/revocation_list.h"
#include "engine/base/file_system.h"

namespace rivulet {

// Record of one authority's newest list. Not thread-safe.
class RevocationRecord {
 public:
  // Stores lists as `beside`.revoked-DIGITS.crl, with digits of the authority's key; "": in memory alone. The folder is
  // not created: a mistyped --db must not make one. `fs` must outlive it.
  RevocationRecord(FileSystem& fs, std::string beside) : fs_(fs), beside_(std::move(beside)) {}

  // The list in force, given the content `pem` of the file `where` (nullopt: no such file). Gives nullopt if there
  // never was one. Errors as ReadRevocationList, if the file is invalid and there is no earlier list.
  StatusOr<std::optional<RevocationList>> Take(const std::optional<std::string>& pem, std::string_view where,
                                               const Certificate& authority);

  // Why the last call did not use the given list; "": it did.
  const std::string& fault() const { return fault_; }
  // Why the list in force could not be stored in its file; "": it was.
  const std::string& not_kept() const { return not_kept_; }

 private:
  void Recall(const Certificate& authority, const std::string& key);
  void Keep(const std::string& pem, const Certificate& authority);
  std::string Path() const;

  FileSystem& fs_;
  const std::string beside_;
  std::string key_;  // of the authority whose list `last_` is
  std::optional<RevocationList> last_;
  std::string fault_, not_kept_;
};

}  // namespace rivulet
