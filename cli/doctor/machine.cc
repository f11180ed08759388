#include "cli/doctor/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "engine/base/available_memory.h"

namespace rivulet {
namespace {

// Names of /proc/cpuinfo, from the oldest to the best.
constexpr const char* kInstructionSets[] = {"ssse3",       "sse4_2",      "avx2",     "fma",  "avx512f",
                                            "avx512_vnni", "avx512_bf16", "amx_bf16", "asimd"};

void LookAtProcessor(Machine& machine) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string value = line.substr(colon + 2);
    if (line.starts_with("model name")) machine.processor = value;
    if (!line.starts_with("flags") && !line.starts_with("Features")) continue;
    std::istringstream words(value);
    const std::set<std::string> flags{std::istream_iterator<std::string>(words), {}};
    for (const char* name : kInstructionSets) {
      if (flags.contains(name)) machine.instruction_sets.emplace_back(name);
    }
  }
}

// The lowest limit of the group and its parents (version 2).
double LimitOfGroups() {
  std::ifstream groups("/proc/self/cgroup");
  double least = 0;
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::")) continue;
    for (std::string group = line.substr(3);; group.resize(group.rfind('/'))) {
      if (group == "/") group.clear();
      std::ifstream file("/sys/fs/cgroup" + group + "/cpu.max");
      std::string text;
      std::getline(file, text);
      if (const double limit = CoreLimit(text); limit > 0) least = least == 0 ? limit : std::min(least, limit);
      if (group.empty() || group.rfind('/') == std::string::npos) break;
    }
  }
  return least;
}

}  // namespace

double CoreLimit(const std::string& cpu_max) {
  std::istringstream words(cpu_max);
  double quota = 0, period = 0;
  if (!(words >> quota >> period) || quota <= 0 || period <= 0) return 0;
  return quota / period;
}

Machine LookAtMachineParts() {
  Machine machine;
  LookAtProcessor(machine);
  machine.cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  if (const long online = ::sysconf(_SC_NPROCESSORS_ONLN); online > 0) machine.cores = static_cast<int>(online);
  cpu_set_t allowed;
  machine.allowed_cores = ::sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : machine.cores;
  machine.core_limit = LimitOfGroups();
  machine.memory_bytes = static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  machine.available_bytes = static_cast<int64_t>(std::min<size_t>(AvailableMemory(), INT64_MAX));
  return machine;
}

}  // namespace rivulet
