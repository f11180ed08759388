// Processes of sites whose partial sum was refused. They get no more tasks: their next sum would be refused too, and
// the tasks would be lost to other sites.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// Set of distrusted processes. Thread-safe. A restarted site is another process, and trusted.
class DistrustedSites {
 public:
  // PERMISSION_DENIED, with the reason.
  Status Check(const Caller& caller) const {
    MutexLock lock(mutex_);
    const auto found = reasons_.find({caller.name, caller.session});
    if (found == reasons_.end()) return absl::OkStatus();
    return PermissionDenied(
        "site '{}' gets no more tasks, because its partial sum was refused ({}); fix it and restart it", caller.name,
        found->second);
  }
  void Add(const Caller& caller, std::string reason) {
    MutexLock lock(mutex_);
    reasons_[{caller.name, caller.session}] = std::move(reason);
  }

 private:
  mutable Mutex mutex_;
  std::map<std::pair<std::string, uint64_t>, std::string> reasons_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
