// The valid process of each aggregator that calls: the latest to connect, even if an earlier one still calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "engine/base/status.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// Not thread-safe.
class AggregatorSessions {
 public:
  enum class Came : uint8_t {
    kAgain,    // the same process, as at its last call
    kNew,      // of a name that nobody had
    kInPlace,  // another process of its name, of which nothing is known that the one before had
  };
  // PERMISSION_DENIED: another has taken its place. RESOURCE_EXHAUSTED: too many names. INVALID_ARGUMENT: a name that
  // no row can hold.
  StatusOr<Came> Admit(const Caller& caller);
  // Whether this process is the one that counts.
  bool IsNow(const Caller& caller) const {
    const auto found = sessions_.find(caller.name);
    return found != sessions_.end() && found->second.now == caller.session;
  }
  bool contains(const std::string& name) const { return sessions_.contains(name); }
  bool empty() const { return sessions_.empty(); }

 private:
  struct Session {
    uint64_t now = 0;
    std::set<uint64_t> before;
  };
  std::map<std::string, Session> sessions_;
};

}  // namespace rivulet
