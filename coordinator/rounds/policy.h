// The run machine's policies: who serves many names, who is not asked again, and how often those who wait call. Pure
// values and functions; each has its test without a machine.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "coordinator/rounds/update_buffer.h"

namespace rivulet {

// The sites of many names, and when they polled last.
class Presence {
 public:
  void Saw(const std::string& site, TimeMs now);
  int64_t sites() const {
    return static_cast<int64_t>(seen_.size());
  }  // that polled within a minute of the last that did
  const std::map<std::string, TimeMs>& seen() const { return seen_; }

 private:
  std::map<std::string, TimeMs> seen_;
};

// Those who are not asked again for this version, as what they brought was refused or they could not do it.
class SittingOut {
 public:
  void Add(const std::string& client_id);  // once; not a name that sits out already
  void Clear() { *this = {}; }             // a new version
  // Those who have sat out longest may be asked again, until `wanted` of `members` are left or nobody sits out: no
  // client can end a run by being refused.
  void ForgiveUntil(int64_t members, int64_t wanted);
  const std::set<std::string>& names() const { return names_; }
  const std::vector<std::string>& in_order() const { return in_order_; }  // longest first

 private:
  std::set<std::string> names_;
  std::vector<std::string> in_order_;
};

struct Pace {
  // Milliseconds until one of `waiting` may call again: together they ask at most a thousand times a second.
  static int64_t WaitFor(int64_t waiting);
  // How many tasks one of `sites` gets of the `want` it asks for while `offered` are left: half of an even share, so
  // that the last of a cohort are spread over all sites, and nobody waits long for one that took many. At least one,
  // where it wants one. `sites` is at least 1.
  static int64_t FairShare(int64_t want, int64_t offered, int64_t sites);
};

}  // namespace rivulet
