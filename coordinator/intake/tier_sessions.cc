#include "coordinator/intake/tier_sessions.h"

#include "engine/base/display_name.h"

namespace rivulet {

StatusOr<TierSessions::Came> TierSessions::Admit(const Caller& caller) {
  constexpr size_t kMostTiers = 1024, kMostBefore = 1024;
  RIVULET_RETURN_IF_ERROR(CheckDisplayName("a tier's name", caller.name));
  const auto found = sessions_.find(caller.name);
  if (found == sessions_.end()) {
    if (sessions_.size() >= kMostTiers) {
      return ResourceExhausted("{} tiers call here, and no more are admitted", kMostTiers);
    }
    sessions_[caller.name].now = caller.session;
    return Came::kNew;
  }
  Session& session = found->second;
  if (session.before.contains(caller.session)) {
    return PermissionDenied("another process of tier '{}' has taken the place of this one; stop one of them",
                            caller.name);
  }
  if (session.now == caller.session) return Came::kAgain;
  if (session.before.size() >= kMostBefore) session.before.clear();
  session.before.insert(session.now);
  session.now = caller.session;
  return Came::kInPlace;
}

}  // namespace rivulet
