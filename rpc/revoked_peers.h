// Peers that a server has refused because their certificate is revoked, until they are reported. Internal to this
// folder.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/mutex.h"
#include "rpc/credentials.h"

namespace rivulet {

// Set of refused peers. Thread-safe.
class RevokedPeers {
 public:
  // `refusal`: of a certificate (certificates/verify.h); other refusals are ignored.
  void Note(const Status& refusal);
  // Each certificate that was noted since the last call, once.
  std::vector<RevokedPeer> Take();

 private:
  Mutex mutex_;
  std::map<std::string, RevokedPeer> peers_ GUARDED_BY(mutex_);  // by serial
};

}  // namespace rivulet
