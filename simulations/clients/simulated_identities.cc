#include "simulations/clients/simulated_identities.h"

#include <utility>

namespace rivulet {

StatusOr<std::unique_ptr<SimulatedIdentities>> SimulatedIdentities::Create(const Clock& clock) {
  RIVULET_ASSIGN_OR_RETURN(EphemeralAuthority authority, EphemeralAuthority::Create(clock));
  RIVULET_ASSIGN_OR_RETURN(NodeIdentity coordinator,
                           authority.IdentityOf({.name = {Role::kCoordinator, "localhost"}, .hosts = {"localhost"}}));
  return std::unique_ptr<SimulatedIdentities>(
      new SimulatedIdentities(clock, std::move(authority), std::move(coordinator)));
}

StatusOr<std::shared_ptr<const SecureMember>> SimulatedIdentities::Of(const std::string& client_id) {
  {
    MutexLock lock(mutex_);
    if (const auto found = members_.find(client_id); found != members_.end()) return found->second;
  }
  // Signed without the lock. Two threads never have the same client; if they did, the first identity would count.
  RIVULET_ASSIGN_OR_RETURN(NodeIdentity identity,
                           authority_.IdentityOf({.name = {Role::kClient, client_id}, .hosts = {}}));
  auto member = std::make_shared<SecureMember>();
  member->identity = [own = std::make_shared<const NodeIdentity>(std::move(identity))] { return own; };
  member->now = [this] { return clock_.UnixMs() / 1000; };
  MutexLock lock(mutex_);
  return members_.emplace(client_id, std::move(member)).first->second;
}

}  // namespace rivulet
