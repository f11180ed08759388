#include "cli/run/device_option.h"

#include <charconv>

#include "engine/gpu/gpu_device.h"

namespace rivulet {
namespace {

constexpr std::string_view kNumbered = "gpu:", kCheck = "check";

}  // namespace

void AddDeviceOptions(Command& command, DeviceOptions* options) {
  command
      .Option("--device", "cpu|gpu|gpu:N|check", &options->device,
              "where clients are trained: on the processor, or many at once on a GPU; N counts those that "
              "CUDA_VISIBLE_DEVICES shows, from 0; check: on GPU 0 and on the processor, and refuses what differs "
              "[cpu]")
      .Option("--lanes", "N", &options->lanes,
              "clients that a GPU trains at once, at most; the result is the same for any number [64, as far as its "
              "memory goes]",
              {1, 4096})
      .Flag("--soft", &options->soft, "train on the processor what the device has no kernels for, and say so")
      .Flag(
          "--tf32", &options->tf32,
          "multiply float32 by the device's tensor cores, which take 10 of the 23 bits behind the point; the model is "
          "another one then");
}

StatusOr<TrainingDevice> DeviceOf(const DeviceOptions& options) {
  TrainingDevice on;
  if (options.device == "cpu") {
    if (!options.lanes && !options.soft && !options.tf32) return on;
    return UsageError("{} is of a GPU; give --device gpu too, or leave it", options.soft   ? "--soft"
                                                                            : options.tf32 ? "--tf32"
                                                                                           : "--lanes");
  }
  int number = 0;
  const std::string& name = options.device;
  on.check = name == kCheck;
  bool good = name == "gpu" || on.check;
  if (name.starts_with(kNumbered)) {
    const char* const end = name.data() + name.size();
    const auto [read_to, error] = std::from_chars(name.data() + kNumbered.size(), end, number);
    good = error == std::errc() && read_to == end && number >= 0;
  }
  if (!good) return UsageError("--device '{}' is none; give cpu, gpu, gpu:N, such as gpu:0, or check", name);
  const auto backend = CudaBackend();
  if (!backend.ok()) return Annotate(backend.status(), fmt::format("--device {}", name));
  auto device = GpuDevice::Open(**backend, number, {.allow_tf32 = options.tf32});
  if (!device.ok()) return Annotate(device.status(), fmt::format("--device {}", name));
  on.device = *std::move(device);
  if (options.lanes) on.most_lanes = static_cast<int>(*options.lanes);
  return on;
}

std::string ShellArguments(const DeviceOptions& options) {
  std::string arguments;
  if (options.device != "cpu") arguments += " --device " + options.device;
  if (options.lanes) arguments += fmt::format(" --lanes {}", *options.lanes);
  if (options.soft) arguments += " --soft";
  if (options.tf32) arguments += " --tf32";
  return arguments;
}

}  // namespace rivulet
