#include "engine/base/vlog.h"

#include <fmt/chrono.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <utility>
#include <vector>

#include "engine/base/mutex.h"

namespace rivulet {
namespace {

constexpr int kHighest = 9;
constexpr size_t kMostModules = 256;

struct ModuleLevel {
  std::string pattern;
  int level = 0;
};

std::string_view FileName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// "engine/program/program.cc" → "program".
std::string_view ModuleOf(std::string_view path) {
  const std::string_view file = FileName(path);
  return file.substr(0, file.find('.'));
}

// Wildcards with one place to come back to: linear in practice, quadratic at worst, never exponential.
bool Fits(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

StatusOr<std::vector<ModuleLevel>> Parse(std::string_view text) {
  std::vector<ModuleLevel> levels;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    const size_t equals = part.find('=');
    const std::string_view module = equals == std::string_view::npos ? "*" : part.substr(0, equals);
    const std::string_view digits = equals == std::string_view::npos ? part : part.substr(equals + 1);
    int level = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), level);
    if (error != std::errc() || end != digits.data() + digits.size() || module.empty())
      return InvalidArgument("'{}' is no log level; write MODULE=LEVEL, such as program=2, or a level for all", part);
    if (level < 0 || level > kHighest)
      return InvalidArgument("the log level of '{}' is {}; it must be between 0 and {}", module, level, kHighest);
    if (levels.size() == kMostModules) return InvalidArgument("log levels are for {} modules at most", kMostModules);
    levels.push_back({std::string(module), level});
  }
  return levels;
}

struct VlogState {
  Mutex mutex;
  std::vector<ModuleLevel> levels GUARDED_BY(mutex);
  internal::VlogSite* sites GUARDED_BY(mutex) = nullptr;  // that have looked their level up
};
VlogState& Global() {
  static VlogState* settings = new VlogState;  // outlives every thread that logs
  return *settings;
}

int LevelOf(const std::vector<ModuleLevel>& levels, std::string_view module) {
  for (const ModuleLevel& each : levels)
    if (Fits(each.pattern, module)) return each.level;
  return 0;
}

}  // namespace

namespace internal {

// Each site remembers its level and is found again when levels change, so that a log statement that is off costs one
// relaxed load.
int VlogSite::LevelOfModule() {
  const int known = level_.load(std::memory_order_relaxed);
  if (known != kUnknown) return known;
  VlogState& settings = Global();
  MutexLock lock(settings.mutex);
  if (level_.load(std::memory_order_relaxed) == kUnknown) {
    next_ = std::exchange(settings.sites, this);
    level_.store(LevelOf(settings.levels, ModuleOf(file_)), std::memory_order_relaxed);
  }
  return level_.load(std::memory_order_relaxed);
}

// Callers hold the settings' mutex, which the analysis cannot see in a friend.
RIVULET_TS(no_thread_safety_analysis)
void RefreshVlogSites() {
  VlogState& settings = Global();
  for (VlogSite* site = settings.sites; site != nullptr; site = site->next_)
    site->level_.store(LevelOf(settings.levels, ModuleOf(site->file_)), std::memory_order_relaxed);
}

void WriteVlog(const char* file, int line, int level, const std::string& message) {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count() % 1'000'000;
  const std::string text = fmt::format("V{} {:%H:%M:%S}.{:06} {}:{}] {}", level, fmt::gmtime(seconds), micros,
                                       FileName(file), line, message);
  MutexLock lock(Global().mutex);  // whole lines
  std::fprintf(stderr, "%s\n", text.c_str());
}

}  // namespace internal

Status SetVlogLevels(std::string_view levels) {
  RIVULET_ASSIGN_OR_RETURN(std::vector<ModuleLevel> parsed, Parse(levels));
  VlogState& settings = Global();
  MutexLock lock(settings.mutex);
  settings.levels = std::move(parsed);
  internal::RefreshVlogSites();
  return absl::OkStatus();
}

}  // namespace rivulet
