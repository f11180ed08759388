#include "coordinator/intake/aggregator_sessions.h"

#include "engine/base/display_name.h"

namespace rivulet {

StatusOr<AggregatorSessions::Came> AggregatorSessions::Admit(const Caller& caller) {
  constexpr size_t kMostAggregators = 1024, kMostBefore = 1024;
  RIVULET_RETURN_IF_ERROR(CheckDisplayName("an aggregator's name", caller.name));
  const auto found = sessions_.find(caller.name);
  if (found == sessions_.end()) {
    if (sessions_.size() >= kMostAggregators) {
      return ResourceExhausted("{} aggregators call here, and no more are admitted", kMostAggregators);
    }
    sessions_[caller.name].now = caller.session;
    return Came::kNew;
  }
  Session& session = found->second;
  if (session.before.contains(caller.session)) {
    return PermissionDenied("another process of aggregator '{}' has taken the place of this one; stop one of them",
                            caller.name);
  }
  if (session.now == caller.session) return Came::kAgain;
  if (session.before.size() >= kMostBefore) session.before.clear();
  session.before.insert(session.now);
  session.now = caller.session;
  return Came::kInPlace;
}

}  // namespace rivulet
