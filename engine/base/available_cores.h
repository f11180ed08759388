// Number of processors that this process may use.
#pragma once

namespace rivulet {

// Those that this process may run on (its affinity, and so the cpuset of its control group), or as many as the
// processor time of its control groups (cpu.max, cpu.cfs_quota_us) comes to where that is less; at least 1. Reads a few
// files.
int AvailableCores();

// What a group's processor time comes to, rounded up: 150,000 us of each 100,000 are 2. 0: it is not limited.
int CoresOfQuota(double quota_us, double period_us);

}  // namespace rivulet
