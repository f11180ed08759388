// Availability of clients: a trace of rounds, from a CSV file.
//
//   client,from,until
//   client-00003,1,20
//   client-00003,41,60
//
// A client may be selected in rounds `from` to `until`, inclusive, of any of its lines; a client without a line, in
// every round. After `period` rounds, if set, the trace repeats.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status.h"

namespace rivulet {

// Immutable.
class AvailabilityTrace {
 public:
  // `period` 0: no repetition. INVALID_ARGUMENT with file and line: not three columns, or rounds that are not numbers,
  // below 1, or in the wrong order.
  static StatusOr<AvailabilityTrace> Parse(std::string_view csv, const std::string& path, int64_t period);

  bool MayBeDrawn(const std::string& client_id, int64_t round) const;

 private:
  std::map<std::string, std::vector<std::pair<int64_t, int64_t>>, std::less<>> rounds_;
  int64_t period_ = 0;
};

}  // namespace rivulet
