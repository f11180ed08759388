// Trace of the devices' availability and speeds, in seconds, from a CSV file.
//
//   client,from,until,compute,download,upload
//   client-00003,0,3600,2e9,4e6,1e6
//   client-00003,7200,9000
//
// A device is available from `from` to before `until` of any of its lines. The distributions give speeds that a line
// leaves out. After `period` the trace repeats, so that no line is longer.
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

// From when until when a device is there. Speeds that are not known are 0.
struct DeviceSpan {
  VirtualTime from = 0, until = 0;
  double compute = 0, download = 0, upload = 0;
};

// Immutable.
class DeviceTrace {
 public:
  // INVALID_ARGUMENT with file and line: neither three columns nor four to six, numbers that are none or below 0, times
  // the wrong way round or beyond `period`, or spans of one device that overlap.
  static StatusOr<DeviceTrace> Parse(std::string_view csv, const std::string& path, VirtualTime period);
  // Ascending; null: it has no line.
  const std::vector<DeviceSpan>* Find(const std::string& client_id) const;

 private:
  std::unordered_map<std::string, std::vector<DeviceSpan>> spans_;  // every draw asks for many of them
};

}  // namespace rivulet
