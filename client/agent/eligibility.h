// Check of a site's policy (client/agent/site_policy.h) against the machine's present state: whether a task may start
// now, and the processors and priority it may use.
#pragma once

#include <cstdint>
#include <string>

#include "client/agent/site_policy.h"

namespace rivulet {

struct MachineNow {
  int minute_of_day = 0;        // local time, 0 to 1439
  double load = 0;              // runnable threads per processor over the last minute: 1 is busy
  int64_t available_bytes = 0;  // of memory, without swapping
};
// Values that the system does not report are 0; available memory then INT64_MAX.
MachineNow LookAtMachine();

// Returns "" if a task may start now, else the reason, in constant words: "this site takes tasks from 20:00 to 06:00
// (when.hours)". The coordinator passes over a client that does not poll, and the round continues.
std::string WhyNotNow(const SitePolicy::When& when, const MachineNow& now);

// Limits this process and its future threads to the processors and priority of `budget`. FAILED_PRECONDITION: the
// system refuses.
Status KeepWithin(const SitePolicy::Budget& budget);

// Asks the system for long time slices for the calling thread and its future threads (SCHED_BATCH; sched_setattr(2),
// with slices of up to 100 ms from Linux 6.12). The share of the processor is unchanged, and threads that wake up still
// run first. An earlier policy (`chrt`), or a system without such slices, is left unchanged.
void TakeLongTurns();

}  // namespace rivulet
