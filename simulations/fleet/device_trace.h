// Trace of the devices' availability and speeds, in seconds, from a CSV file.
//
//   client,from,until,compute,download,upload
//   client-00003,0,3600,2e9,4e6,1e6
//   client-00003,7200,9000
//
// A device is available from `from` to before `until` of any of its lines. The distributions give speeds that a line
// omits. After `period` the trace repeats, so no line extends beyond it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "coordinator/rounds/lease_book.h"
#include "engine/base/status.h"

namespace rivulet {

// A period in which a device is available. Unknown speeds are 0.
struct DeviceSpan {
  VirtualTime from = 0, until = 0;
  double compute = 0, download = 0, upload = 0;
};

// Spans of each device. Immutable.
class DeviceTrace {
 public:
  // INVALID_ARGUMENT with file and line: neither three columns nor four to six, numbers that are invalid or below 0,
  // times that are reversed or beyond `period`, or overlapping spans of one device.
  static StatusOr<DeviceTrace> Parse(std::string_view csv, const std::string& path, VirtualTime period);
  // Ascending; null: it has no line.
  const std::vector<DeviceSpan>* Find(const std::string& client_id) const;

 private:
  std::unordered_map<std::string, std::vector<DeviceSpan>> spans_;  // every draw looks many of them up
};

}  // namespace rivulet
