#include "rpc/revoked_peers.h"

#include "certificates/verify.h"
#include "engine/base/error_facts.h"

namespace rivulet {

void RevokedPeers::Note(const Status& refusal) {
  constexpr size_t kMost = 1000;  // certificates of one authority, between two calls of Take
  std::string serial = FactOf(refusal, kRevokedFact), name = FactOf(refusal, kRevokedNameFact);
  if (serial.empty()) return;
  MutexLock lock(mutex_);
  if (peers_.size() >= kMost) return;
  peers_.insert_or_assign(serial, RevokedPeer{std::move(name), serial, std::string(Message(refusal))});
}

std::vector<RevokedPeer> RevokedPeers::Take() {
  MutexLock lock(mutex_);
  std::vector<RevokedPeer> taken;
  for (auto& [serial, peer] : std::exchange(peers_, {})) taken.push_back(std::move(peer));
  return taken;
}

}  // namespace rivulet
