#include "cli/graph/profile_gpu.h"

#include <algorithm>

#include "cli/run/device_option.h"
#include "engine/compile/compile_gpu.h"
#include "engine/profile/gpu_profile.h"
#include "engine/profile/gpu_roofline.h"
#include "engine/profile/gpu_trial.h"
#include "engine/tensor/spec_bytes.h"

namespace rivulet {
namespace {

constexpr uint64_t kFirstLabel = 1;

// The loop's buffers, up to the end of their variables.
std::vector<std::span<const std::byte>> BuffersOf(StepLoop& loop) {
  const std::span<const Buffer> buffers = loop.bindings().buffers;
  std::vector<size_t> bytes(buffers.size(), 0);
  for (const VariableBinding& variable : loop.program().signature().variables) {
    size_t& end = bytes[static_cast<size_t>(variable.buffer)];
    end = std::max(end, variable.offset + TensorBytes(variable.spec));
  }
  std::vector<std::span<const std::byte>> values;
  for (size_t i = 0; i < buffers.size(); ++i) values.emplace_back(buffers[i].data, bytes[i]);
  return values;
}

}  // namespace

Status GpuProfileOptions::Check() const {
  if (!on_gpu())
    return lanes ? UsageError("--lanes is for a GPU; give --device gpu too, or leave --lanes out") : absl::OkStatus();
  RIVULET_RETURN_IF_ERROR(CheckGpuNames(device));
  return CheckOneGpu(device, "steps are profiled");
}

StatusOr<Profile> ProfileOnGpu(StepLoop& loop, int64_t first, int64_t last, const GpuProfileOptions& options,
                               const Interrupt& interrupt, Tracer* tracer) {
  const auto lanes = static_cast<int>(options.lanes.value_or(1));
  RIVULET_ASSIGN_OR_RETURN(const auto devices, OpenGpus(options.device));
  const std::shared_ptr<GpuDevice>& device = devices.front();
  RIVULET_ASSIGN_OR_RETURN(const auto program, CompileForGpu(loop.graph(), loop.program().signature()));
  RIVULET_ASSIGN_OR_RETURN(const auto run, GpuTrial::Create(program, device, BuffersOf(loop), lanes));
  RIVULET_ASSIGN_OR_RETURN(const Roofline roofline, MeasureGpuRoofline(*device));
  RIVULET_ASSIGN_OR_RETURN(const auto stream, device->NewStream());
  std::unique_ptr<GpuRecording> recording;
  std::vector<double> seconds;
  for (int64_t step = 1; step <= last && !interrupt.happened(); ++step) {
    if (step == first) {
      RIVULET_ASSIGN_OR_RETURN(recording, GpuRecording::Start(device->api()));
    }
    const int64_t begin = ProfileNanos();
    RIVULET_RETURN_IF_ERROR(loop.Feed(step - 1));
    RIVULET_RETURN_IF_ERROR(run->Feed(loop.bindings().feeds));
    RIVULET_RETURN_IF_ERROR(run->Put(*stream, kFirstLabel));
    RIVULET_RETURN_IF_ERROR(stream->Wait());
    if (step >= first) seconds.push_back(static_cast<double>(ProfileNanos() - begin) * 1e-9);
  }
  if (seconds.empty()) return Cancelled("stopped before step {}", first);
  RIVULET_ASSIGN_OR_RETURN(const std::vector<GpuActivity> activities, std::move(*recording).Stop());
  Profile profile = GpuProfileOf(*program, lanes, activities, kFirstLabel, seconds);
  profile.roofline = roofline;
  profile.title = fmt::format("{} on GPU {} ({}), {} lane{}", loop.title(), device->number(), device->properties().name,
                              lanes, lanes == 1 ? "" : "s");
  if (tracer != nullptr) TraceGpu(activities, program.get(), kFirstLabel, *tracer);
  return profile;
}

}  // namespace rivulet
