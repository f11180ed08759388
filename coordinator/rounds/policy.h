// The run machine's policies: who serves many names, and how often those who wait call. Pure values and functions; each
// has its test without a machine.
#pragma once

#include <cstdint>
#include <map>
#include <string>

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

struct Pace {
  // Milliseconds until one of `waiting` may call again: together they ask at most a thousand times a second.
  static int64_t WaitFor(int64_t waiting);
  // How many tasks one of `sites` gets of the `want` it asks for while `offered` are left: half of an even share, so
  // that the last of a cohort are spread over all sites, and nobody waits long for one that took many. At least one,
  // where it wants one. `sites` is at least 1.
  static int64_t FairShare(int64_t want, int64_t offered, int64_t sites);
};

}  // namespace rivulet
