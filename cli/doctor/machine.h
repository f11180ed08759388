// Resources of a machine: processors, memory, disk and limits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rivulet {

struct Machine {
  std::string processor;                      // "Intel(R) Xeon(R) Platinum 8481C"; "" if unknown
  std::vector<std::string> instruction_sets;  // of those that our kernels and oneDNN use
  int cores = 0;                              // of the machine
  int allowed_cores = 0;                      // usable by this process
  double core_limit = 0;                      // of its control groups, in cores' time; 0: none
  int64_t memory_bytes = 0;
  int64_t available_bytes = 0;  // within the limits of its control groups
};
Machine LookAtMachineParts();

// Reads a control group's file cpu.max: "150000 100000" gives 1.5 cores, "max 100000" gives 0, no limit.
double CoreLimit(const std::string& cpu_max);

}  // namespace rivulet
