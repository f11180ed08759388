#include "engine/base/available_cores.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>

#include "engine/base/control_groups.h"

namespace rivulet {
namespace {

// The quota is "max", or -1, where there is none.
int CoresOf(const ControlGroup& group) {
  double quota = 0, period = 0;
  if (group.unified) {
    if (!(std::ifstream(group.folder + "/cpu.max") >> quota >> period)) return 0;
  } else if (!(std::ifstream(group.folder + "/cpu.cfs_quota_us") >> quota) ||
             !(std::ifstream(group.folder + "/cpu.cfs_period_us") >> period)) {
    return 0;
  }
  return CoresOfQuota(quota, period);
}

}  // namespace

int CoresOfQuota(double quota_us, double period_us) {
  if (!(quota_us > 0) || !(period_us > 0)) return 0;
  return static_cast<int>(std::min(std::ceil(quota_us / period_us), 1e6));
}

int AvailableCores() {
  int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));  // of the machine
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) cores = std::min(cores, CPU_COUNT(&allowed));
  for (const ControlGroup& group : ControlGroupsOf("cpu")) {
    if (const int most = CoresOf(group); most > 0) cores = std::min(cores, most);
  }
  return cores;
}

}  // namespace rivulet
