#include "engine/base/available_memory.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#include "engine/base/control_groups.h"

namespace rivulet {
namespace {

std::optional<uint64_t> Number(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  if (!(file >> value)) return std::nullopt;  // "max": no limit
  return value;
}

// The value of a line "NAME 123" or "NAME: 123 kB".
uint64_t Field(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    uint64_t value = 0;
    if (word == name && file >> value) return value;
  }
  return 0;
}

// Of one group: its limit less what it uses, of which the cache of files can be taken back.
size_t LeftOf(const std::string& limit_file, const std::string& usage_file, const std::string& statistics) {
  const std::optional<uint64_t> limit = Number(limit_file), usage = Number(usage_file);
  if (!limit || !usage) return SIZE_MAX;
  const uint64_t used = *usage - std::min(*usage, Field(statistics, "inactive_file"));
  return static_cast<size_t>(*limit - std::min(*limit, used));
}

}  // namespace

size_t AvailableMemory() {
  size_t left = SIZE_MAX;
  if (const uint64_t kilobytes = Field("/proc/meminfo", "MemAvailable:"); kilobytes > 0)
    left = static_cast<size_t>(kilobytes) * 1024;
  for (const auto& [folder, unified] : ControlGroupsOf("memory")) {
    left = std::min(left, unified ? LeftOf(folder + "/memory.max", folder + "/memory.current", folder + "/memory.stat")
                                  : LeftOf(folder + "/memory.limit_in_bytes", folder + "/memory.usage_in_bytes",
                                           folder + "/memory.stat"));
  }
  return left;
}

}  // namespace rivulet
