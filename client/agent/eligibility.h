// Check of a site's policy (client/agent/site_policy.h) against the machine's present state: whether a task may start
// now, and the processors and priority it may use.
#pragma once

#include <cstdint>
#include <string>

#include "client/agent/site_policy.h"

namespace rivulet {

struct MachineNow {
  int minute_of_day = 0;        // local time, 0 to 1439
  double load = 0;              // what runs or waits to, of the last minute, for each processor: 1 is busy
  int64_t available_bytes = 0;  // of memory, without pushing anybody out
};
// What cannot be found out is 0; available memory then INT64_MAX.
MachineNow LookAtMachine();

// "": now. Else why not, in words that stay the same while it is so: "this site takes tasks from 20:00 to 06:00
// (when.hours)". A client that asks for nothing is passed over by the coordinator, and the round goes on.
std::string WhyNotNow(const SitePolicy::When& when, const MachineNow& now);

// Holds this process, the threads that it makes from now on among them, to the processors and the priority of `budget`.
// FAILED_PRECONDITION: the system does not let it.
Status KeepWithin(const SitePolicy::Budget& budget);

// Asks the system for long turns on a processor, for the calling thread and those that it makes from now on: the share
// stays what it was, but whoever waits for something is served before, and training goes on for up to 100 ms where it
// has others beside it (SCHED_BATCH; sched_setattr(2), of Linux 6.12 and newer the turn's length). What was chosen by
// whoever started this process (`chrt`), or a system that knows no such thing, is left as it is.
void TakeLongTurns();

}  // namespace rivulet
