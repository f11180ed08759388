#include "cli/run/gpu_trace.h"

#include <utility>

#include "engine/profile/gpu_profile.h"

namespace rivulet {

GpuTrace GpuTrace::Start(Tracer* tracer, const TrainingDevice& device,
                         const std::function<void(const std::string&)>& note) {
  GpuTrace trace;
  if (tracer == nullptr || device.device == nullptr) return trace;
  StatusOr<std::unique_ptr<GpuRecording>> recording = GpuRecording::Start(device.device->api());
  if (!recording.ok()) {
    note(fmt::format("the trace shows no kernels: {}", Message(recording.status())));
    return trace;
  }
  trace.tracer_ = tracer;
  trace.recording_ = *std::move(recording);
  return trace;
}

Status GpuTrace::Finish() {
  if (recording_ == nullptr) return absl::OkStatus();
  RIVULET_ASSIGN_OR_RETURN(const std::vector<GpuActivity> activities, std::move(*recording_).Stop());
  recording_.reset();
  // A graph's kernels have no node labels: their own names identify them.
  TraceGpu(activities, nullptr, 0, *tracer_);
  return absl::OkStatus();
}

}  // namespace rivulet
