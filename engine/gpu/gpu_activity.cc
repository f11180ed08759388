#include "engine/gpu/gpu_activity.h"

#include <cxxabi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <tuple>
#include <utility>

namespace rivulet {
namespace {

// Records belong to the process, not to the caller.
std::atomic<bool> taken = false;

int64_t HostNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// "(anonymous namespace)::Scale_float(Arguments)" → "Scale_float"; the argument type adds no information.
std::string KernelName(const char* mangled) {
  if (!std::string_view(mangled).starts_with("_Z")) return mangled;
  int error = 0;
  char* whole = abi::__cxa_demangle(mangled, nullptr, nullptr, &error);
  if (error != 0) return mangled;
  std::string name = whole;
  std::free(whole);
  if (const size_t arguments = name.rfind('('); arguments != std::string::npos && arguments > 0) name.resize(arguments);
  if (const size_t scope = name.rfind("::"); scope != std::string::npos && name.find('<') == std::string::npos)
    name.erase(0, scope + 2);
  return name;
}

GpuActivity ActivityOf(const RivuletGpuActivity& told) {
  return {told.kind, told.device, told.stream, told.label, told.begin, told.end, told.bytes, KernelName(told.name)};
}

}  // namespace

int64_t OnHostClock(const ClockReading& first, const ClockReading& last, int64_t device) {
  const int64_t since = device - first.device;
  if (last.device <= first.device) return first.host + since;
  const double rate = static_cast<double>(last.host - first.host) / static_cast<double>(last.device - first.device);
  return first.host + static_cast<int64_t>(static_cast<double>(since) * rate);
}

Status GpuRecording::Error(int code, std::string_view doing) const {
  if (code == 0) return {};
  return Internal("{} back end: {}: {}", api_.backend, doing, api_.error_text(code));
}

StatusOr<std::unique_ptr<GpuRecording>> GpuRecording::Start(const RivuletGpuApi& api) {
  if (const std::string_view missing = api.activity_missing(); !missing.empty()) {
    return Unavailable("GPU activity cannot be recorded: {}", missing);
  }
  if (taken.exchange(true)) {
    return FailedPrecondition("GPU activity is being recorded already; a process has one recording at a time");
  }
  std::unique_ptr<GpuRecording> recording(new GpuRecording(api));
  const Status started = recording->Error(api.activity_start(), "starting records");
  if (!started.ok()) {
    taken = false;
    return started;
  }
  recording->running_ = true;
  RIVULET_ASSIGN_OR_RETURN(recording->started_, recording->ReadClocks());
  return recording;
}

GpuRecording::~GpuRecording() {
  if (!running_) return;
  api_.activity_stop(nullptr, [](void*, const RivuletGpuActivity*) {});
  taken = false;
}

// The device's time is between two readings of the host's clock; the narrowest of a few intervals is the most exact.
StatusOr<ClockReading> GpuRecording::ReadClocks() const {
  ClockReading best;
  int64_t narrowest = INT64_MAX;
  for (int reading = 0; reading < 5; ++reading) {
    int64_t device = 0;
    const int64_t before = HostNanos();
    RIVULET_RETURN_IF_ERROR(Error(api_.activity_clock(&device), "reading its clock"));
    const int64_t between = HostNanos() - before;
    if (between >= narrowest) continue;
    narrowest = between;
    best = {device, before + between / 2};
  }
  return best;
}

StatusOr<std::vector<GpuActivity>> GpuRecording::Stop() && {
  RIVULET_ASSIGN_OR_RETURN(const ClockReading stopped, ReadClocks());
  std::vector<GpuActivity> activities;
  const int code = api_.activity_stop(&activities, [](void* taker, const RivuletGpuActivity* told) {
    static_cast<std::vector<GpuActivity>*>(taker)->push_back(ActivityOf(*told));
  });
  running_ = false;
  taken = false;
  RIVULET_RETURN_IF_ERROR(Error(code, "stopping records"));
  for (GpuActivity& activity : activities) {
    activity.begin = OnHostClock(started_, stopped, activity.begin);
    activity.end = OnHostClock(started_, stopped, activity.end);
  }
  std::ranges::sort(activities, {}, [](const GpuActivity& activity) {
    return std::tuple(activity.begin, activity.device, activity.stream, activity.end);
  });
  return activities;
}

}  // namespace rivulet
