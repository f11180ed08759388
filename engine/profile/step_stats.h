// Recorded runs as TensorFlow's StepStats, which its tools and TensorBoard read.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "engine/profile/run_recorder.h"

namespace rivulet {

namespace proto {
class StepStats;
}  // namespace proto

struct StepStatsSource {
  std::string_view device = "/job:localhost/replica:0/task:0/device:CPU:0";
  uint32_t thread = 0;           // a number that identifies the thread
  std::string_view thread_name;  // may be empty
};

// Appends one NodeExecStats per completed span (failed ones are omitted) to the device's DeviceStepStats, which is
// created if missing. Nodes of inner programs are named "while/body_node". Times are since 1970. Memory is the arena's:
// bytes in use while the node runs, and bytes of its outputs. The programs of the spans must be alive.
void AppendStepStats(std::span<const InstructionSpan> spans, const StepStatsSource& source, proto::StepStats& stats);

}  // namespace rivulet
