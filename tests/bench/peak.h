// What this machine can do at best on one thread, measured in this run.
#pragma once

namespace rivulet::bench {

// float32 multiply-adds in registers, 10^9 operations a second: the best of many short runs. Runs again at each call
// (about 20 ms) and returns the best so far, because the clock drifts.
double PeakGflops();

// Reading memory that no cache holds, 10^9 bytes a second; measured once.
double ReadGigabytes();

}  // namespace rivulet::bench
