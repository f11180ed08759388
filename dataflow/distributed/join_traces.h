// One timeline of the traces of several tasks, whose clocks differ.
#pragma once

#include <cstdint>

#include "dataflow/distributed/remote_task.h"

namespace rivulet {

// Time of day of this machine, in nanoseconds since 1970.
int64_t NowNanos();

// By how many nanoseconds the task's clock is ahead of this machine's, from one call: it was sent at `sent` and its
// answer came at `arrived`. As NTP has it, ((received - sent) + (answered - arrived)) / 2 (RFC 5905, 8): wrong by at
// most half of the time on the way. A task that does not tell its times, as TensorFlow's, is assumed to have the right
// time where its nodes ran within the call; else their middle is put into the call's.
int64_t ClockOffset(const TaskTrace& trace, int64_t sent, int64_t arrived);

// Appends what the task recorded to `joined`, in this machine's time.
void JoinTrace(const TaskTrace& trace, int64_t sent, int64_t arrived, proto::RunMetadata& joined);

}  // namespace rivulet
