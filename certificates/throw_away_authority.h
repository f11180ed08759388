// An authority for the processes of one command on one machine (`rivulet up`): its key is in this process's memory
// alone, nothing can be revoked or renewed, and all that it signed is worth nothing when the command has ended and its
// folder is gone. So nothing is synced either: a thousand clients get theirs in a second.
#pragma once

#include <string>

#include "certificates/sign.h"
#include "engine/base/clock.h"
#include "engine/base/file_system.h"

namespace rivulet {

class ThrowAwayAuthority {
 public:
  static StatusOr<ThrowAwayAuthority> Create(const Clock& clock);
  // Makes `folder`, as a node has it (kit.h), in a parent that is there. As CheckSubject, and the file system's errors.
  Status Issue(const Subject& subject, FileSystem& fs, const std::string& folder) const;

 private:
  ThrowAwayAuthority() = default;
  KeyHandle key_;
  Certificate certificate_;
  std::string revocation_list_;
};

}  // namespace rivulet
