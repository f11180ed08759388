// An authority for the processes of one command on one machine (`rivulet up`), or for the clients of a simulation. Its
// key exists in this process's memory only, and it neither revokes nor renews. Its certificates are worthless after the
// command, so none is synced: a thousand are made in a second.
#pragma once

#include <string>

#include "certificates/identity.h"
#include "certificates/sign.h"
#include "engine/base/clock.h"
#include "engine/base/file_system.h"

namespace rivulet {

class EphemeralAuthority {
 public:
  static StatusOr<EphemeralAuthority> Create(const Clock& clock);
  // Makes `folder` with a node's files (kit.h); its parent must exist. Errors: CheckSubject's, and the file system's.
  Status Issue(const Subject& subject, FileSystem& fs, const std::string& folder) const;
  // The same in memory, without files. Errors as CheckSubject.
  StatusOr<NodeIdentity> IdentityOf(const Subject& subject) const;

 private:
  EphemeralAuthority() = default;
  KeyHandle key_;
  Certificate certificate_;
  std::string revocation_list_;
};

}  // namespace rivulet
