#include "engine/profile/gpu_timer.h"

#include <algorithm>
#include <vector>

namespace rivulet {
namespace {

constexpr int kRunsOfGraph = 8;
constexpr int kRepetitions = 7;
constexpr double kLongEnough = 2e-3;
constexpr int64_t kMostLaunches = 4096;

}  // namespace

StatusOr<GpuTimer> GpuTimer::Create(GpuDevice& device) {
  GpuTimer timer;
  RIVULET_ASSIGN_OR_RETURN(timer.stream_, device.NewStream());
  RIVULET_ASSIGN_OR_RETURN(timer.begin_, device.NewEvent());
  RIVULET_ASSIGN_OR_RETURN(timer.end_, device.NewEvent());
  return timer;
}

StatusOr<double> GpuTimer::Seconds(const GpuGraph& graph, int64_t launches) {
  RIVULET_RETURN_IF_ERROR(stream_->Record(*begin_));
  for (int64_t launch = 0; launch < launches; ++launch) RIVULET_RETURN_IF_ERROR(stream_->Launch(graph));
  RIVULET_RETURN_IF_ERROR(stream_->Record(*end_));
  RIVULET_RETURN_IF_ERROR(stream_->Wait());
  RIVULET_ASSIGN_OR_RETURN(const double milliseconds, end_->MillisecondsSince(*begin_));
  return milliseconds * 1e-3;
}

StatusOr<GpuTiming> GpuTimer::Measure(const std::function<Status(GpuStream&)>& put) {
  RIVULET_RETURN_IF_ERROR(put(*stream_));
  RIVULET_RETURN_IF_ERROR(stream_->Wait());
  RIVULET_RETURN_IF_ERROR(stream_->BeginCapture());
  Status captured;
  for (int run = 0; run < kRunsOfGraph && captured.ok(); ++run) captured = put(*stream_);
  RIVULET_ASSIGN_OR_RETURN(const auto graph, stream_->EndCapture());
  RIVULET_RETURN_IF_ERROR(captured);
  int64_t launches = 1;
  for (;;) {
    RIVULET_ASSIGN_OR_RETURN(const double seconds, Seconds(*graph, launches));
    if (seconds >= kLongEnough || launches >= kMostLaunches) break;
    launches *= 2;
  }
  GpuTiming timing;
  std::vector<double> seconds;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    RIVULET_ASSIGN_OR_RETURN(const double all, Seconds(*graph, launches));
    seconds.push_back(all / static_cast<double>(launches * kRunsOfGraph));
  }
  timing.runs = kRepetitions * launches * kRunsOfGraph;
  std::ranges::sort(seconds);
  timing.median_seconds = seconds[seconds.size() / 2];
  // A clock that is too coarse for it shows nothing at all.
  timing.least_seconds = std::max(seconds.front(), 1e-12);
  timing.median_seconds = std::max(timing.median_seconds, timing.least_seconds);
  return timing;
}

}  // namespace rivulet
