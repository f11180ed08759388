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

// The aggregators of one owner and their processes. Not thread-safe.
class AggregatorSessions {
 public:
  enum class Came : uint8_t {
    kAgain,    // the same process, as at its last call
    kNew,      // first call of this name
    kInPlace,  // another process of this name; all tasks of the earlier one are lost
  };
  // Admits a call. PERMISSION_DENIED: a newer process has replaced this one. RESOURCE_EXHAUSTED: too many names.
  // INVALID_ARGUMENT: no row can hold this name.
  StatusOr<Came> Admit(const Caller& caller);
  // Whether this process is its aggregator's valid one.
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
