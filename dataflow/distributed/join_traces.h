// Merging of traces from several tasks with different clocks into one timeline.
#pragma once

#include <cstdint>

#include "dataflow/distributed/remote_task.h"

namespace rivulet {

// This machine's clock, in nanoseconds since 1970.
int64_t NowNanos();

// Estimates, in nanoseconds, how far the task's clock is ahead of this machine's, from one call that was sent at `sent`
// and answered at `arrived`. As in NTP, ((received - sent) + (answered - arrived)) / 2 (RFC 5905, 8): the error is at
// most half of the network time. TensorFlow's tasks do not report these times. Their clock is assumed correct if their
// nodes ran within the call; else the middle of their times is moved to the middle of the call.
int64_t ClockOffset(const TaskTrace& trace, int64_t sent, int64_t arrived);

// Appends the task's trace to `joined`, converted to this machine's time.
void JoinTrace(const TaskTrace& trace, int64_t sent, int64_t arrived, proto::RunMetadata& joined);

}  // namespace rivulet
