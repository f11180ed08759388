// Verbose logs, per module. A module is a source file's name without folder and ending: "program" is program.cc.
//
//   RIVULET_VLOG(1, "compiled {} calls in {:.1f} ms", calls, ms);
//
// prints to stderr, when the level of the module is at least 1:
//
//   V1 14:03:07.120334 program.cc:57] compiled 31 calls in 2.4 ms
//
// Levels by custom: 1, once per program, task or round; 2, once per node or step; 3, more. All levels start at 0. The
// option --vlog executor=2,pass*=1 of any command line, or the environment variable RIVULET_VLOG, sets them. A disabled
// log costs one relaxed load; its arguments are not evaluated. Thread-safe.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace rivulet {

inline constexpr char kVlogVariable[] = "RIVULET_VLOG";

// "MODULE=LEVEL,…"; '*' in a module stands for any characters and '?' for one, the first that fits counts, and a level
// alone ("2") is that of all modules. Replaces what was set before; "" turns all off. INVALID_ARGUMENT: not of this
// form, a level outside 0 … 9, or more than 256 modules; nothing is changed then.
Status SetVlogLevels(std::string_view levels);

namespace internal {

// One place in the code that logs. Lives as long as the process.
class VlogSite {
 public:
  constexpr explicit VlogSite(const char* file) : file_(file) {}
  bool On(int level) { return level_.load(std::memory_order_relaxed) >= level && LevelOfModule() >= level; }

 private:
  friend void RefreshVlogSites();
  int LevelOfModule();  // looks the level up the first time
  static constexpr int kUnknown = 1 << 20;
  const char* const file_;
  std::atomic<int> level_{kUnknown};
  VlogSite* next_ = nullptr;
};

void WriteVlog(const char* file, int line, int level, const std::string& message);

}  // namespace internal
}  // namespace rivulet

#define RIVULET_VLOG(level, ...)                                                             \
  do {                                                                                       \
    static constinit ::rivulet::internal::VlogSite rivulet_vlog_site(__FILE__);              \
    if (rivulet_vlog_site.On(level)) [[unlikely]]                                            \
      ::rivulet::internal::WriteVlog(__FILE__, __LINE__, level, ::fmt::format(__VA_ARGS__)); \
  } while (false)
