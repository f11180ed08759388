#include "client/agent/eligibility.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>

#include "engine/base/available_memory.h"

namespace rivulet {
namespace {

std::string ClockText(int minute) { return fmt::format("{:02}:{:02}", minute / 60, minute % 60); }

// From `from` to before `until`, over midnight if that is earlier.
bool IsWithin(const SitePolicy::Hours& hours, int minute) {
  if (hours.from <= hours.until) return hours.from <= minute && minute < hours.until;
  return minute >= hours.from || minute < hours.until;
}

// For sched_setattr(2), for which glibc has no function; `runtime` is the length of a time slice in nanoseconds.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes), policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0, deadline = 0, period = 0;
};
static_assert(sizeof(SchedulingAttributes) == 48, "as Linux has it since 3.14");

}  // namespace

MachineNow LookAtMachine() {
  MachineNow now;
  const std::time_t seconds = std::time(nullptr);
  std::tm local{};
  if (localtime_r(&seconds, &local) != nullptr) now.minute_of_day = local.tm_hour * 60 + local.tm_min;
  double load = 0;
  if (getloadavg(&load, 1) == 1) now.load = load / static_cast<double>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  now.available_bytes = static_cast<int64_t>(std::min<size_t>(AvailableMemory(), std::numeric_limits<int64_t>::max()));
  return now;
}

std::string WhyNotNow(const SitePolicy::When& when, const MachineNow& now) {
  if (!when.hours.empty() &&
      std::ranges::none_of(when.hours, [&](const auto& hours) { return IsWithin(hours, now.minute_of_day); })) {
    std::string allowed;
    for (const SitePolicy::Hours& hours : when.hours)
      allowed +=
          fmt::format("{}from {} to {}", allowed.empty() ? "" : " and ", ClockText(hours.from), ClockText(hours.until));
    return fmt::format("this site takes tasks {} (when.hours)", allowed);
  }
  if (when.max_load > 0 && now.load > when.max_load) {
    return fmt::format("this machine is busier than {:.2f} a processor (when.max_load)", when.max_load);
  }
  if (now.available_bytes < when.min_available_bytes) {
    return fmt::format("less than {} MB of memory are free (when.min_free_megabytes)",
                       when.min_available_bytes / 1'000'000);
  }
  return "";
}

Status KeepWithin(const SitePolicy::Budget& budget) {
  if (budget.processors > 0) {
    cpu_set_t allowed, kept;
    CPU_ZERO(&kept);
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
      return FailedPrecondition("budget.processors: {}", std::strerror(errno));
    int64_t left = budget.processors;
    for (int processor = 0; processor < CPU_SETSIZE && left > 0; ++processor) {
      if (!CPU_ISSET(processor, &allowed)) continue;
      CPU_SET(processor, &kept);
      --left;
    }
    if (sched_setaffinity(0, sizeof(kept), &kept) != 0)
      return FailedPrecondition("budget.processors: {}", std::strerror(errno));
  }
  if (budget.niceness > 0 && setpriority(PRIO_PROCESS, 0, static_cast<int>(budget.niceness)) != 0)
    return FailedPrecondition("budget.niceness: {}", std::strerror(errno));
  return absl::OkStatus();
}

// A model and a step's other memory are some 20 MB. With the system's slices of 3 ms, about one step of a small
// network, each training finds the caches full of another's data: ten clients on two cores used a fifth more processor
// time than two workers of one process with the same steps.
void TakeLongTurns() {
  constexpr uint64_t kLongestTurn = 100'000'000;  // larger values are refused
  SchedulingAttributes now;
  if (syscall(SYS_sched_getattr, 0, &now, sizeof(now), 0) != 0 || now.policy != SCHED_OTHER) return;
  now.policy = SCHED_BATCH;
  now.runtime = kLongestTurn;
  (void)syscall(SYS_sched_setattr, 0, &now, 0);
}

}  // namespace rivulet
