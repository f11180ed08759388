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
  uint32_t thread = 0;           // what distinguishes the thread that ran them
  std::string_view thread_name;  // may be empty
};

// Appends one NodeExecStats per span that ended (failed ones are left out), under the device's DeviceStepStats, which
// is made where it is missing. Nodes of inner programs are named "while/body_node". Times are since 1970; memory is the
// arena's: what lives while the node runs, and what its outputs take. The programs of the spans must be alive.
void AppendStepStats(std::span<const InstructionSpan> spans, const StepStatsSource& source, proto::StepStats& stats);

}  // namespace rivulet
