#include "cli/run/device_option.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <numeric>
#include <utility>

#include "engine/gpu/gpu_device.h"
#include "engine/gpu/gpu_listing.h"

namespace rivulet {
namespace {

constexpr std::string_view kNumbered = "gpu:", kAll = "gpu:all", kCheck = "check";

// The number in "gpu" or "gpu:N".
std::optional<int> NumberOf(std::string_view name) {
  if (name == "gpu") return 0;
  if (!name.starts_with(kNumbered)) return std::nullopt;
  int number = 0;
  const char* const end = name.data() + name.size();
  const auto [read_to, error] = std::from_chars(name.data() + kNumbered.size(), end, number);
  if (error != std::errc() || read_to != end || number < 0) return std::nullopt;
  return number;
}

StatusOr<std::vector<int>> AllNumbers(const RivuletGpuApi& api) {
  RIVULET_ASSIGN_OR_RETURN(const GpuListing listing, ListGpus(api));
  if (listing.devices.empty()) return FailedPrecondition("there is no GPU here: {}", listing.why_none);
  std::vector<int> numbers(listing.devices.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

// The numbers in the given order, each once.
StatusOr<std::vector<int>> NumbersOf(const std::string& name) {
  std::vector<int> numbers;
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = name.find(',', begin);
    const std::optional<int> number = NumberOf(std::string_view(name).substr(begin, end - begin));
    if (!number)
      return UsageError("--device '{}' is unknown; give cpu, gpu, gpu:N, several as gpu:0,gpu:1, or gpu:all", name);
    if (std::ranges::find(numbers, *number) != numbers.end()) {
      return UsageError("--device '{}' names GPU {} twice; name each once", name, *number);
    }
    numbers.push_back(*number);
  }
  return numbers;
}

StatusOr<GpuDevices> Open(const std::string& name, const GpuOptions& options, const ChooseOne& one = nullptr) {
  RIVULET_ASSIGN_OR_RETURN(const RivuletGpuApi* const api, CudaBackend());
  const bool all = name == kAll || (one != nullptr && name == "gpu");
  RIVULET_ASSIGN_OR_RETURN(std::vector<int> numbers, all ? AllNumbers(*api) : NumbersOf(name));
  if (one != nullptr) numbers = {numbers.at(one(numbers.size()))};
  GpuDevices devices;
  for (const int number : numbers) {
    RIVULET_ASSIGN_OR_RETURN(devices.emplace_back(), GpuDevice::Open(*api, number, options));
  }
  return devices;
}

StatusOr<GpuDevices> Annotated(const std::string& given, StatusOr<GpuDevices> devices) {
  if (devices.ok()) return devices;
  return Annotate(devices.status(), fmt::format("--device {}", given));
}

}  // namespace

void AddDeviceOptions(Command& command, DeviceOptions* options) {
  command
      .Option("--device", "cpu|gpu|gpu:N|check", &options->device,
              "device for training: cpu, or a GPU for many clients at once (N counts from 0 in CUDA_VISIBLE_DEVICES); "
              "several: gpu:0,gpu:1 or gpu:all; check: compare GPU 0 with the processor [cpu]")
      .Option("--lanes", "N", &options->lanes,
              "largest number of clients that a GPU trains at once; the result is the same for any number [64, or as "
              "many as fit its memory]",
              {1, 4096})
      .Flag("--soft", &options->soft, "train plans without device kernels on the processor, with a message")
      .Flag("--tf32", &options->tf32,
            "multiply float32 by the device's tensor cores, with 10 of the 23 fraction bits; this changes the model");
}

Status CheckGpuNames(const std::string& name) { return name == kAll ? absl::OkStatus() : NumbersOf(name).status(); }

Status CheckOneGpu(const std::string& name, std::string_view who) {
  if (name != kAll && name.find(',') == std::string::npos) return absl::OkStatus();
  return UsageError("--device {} is several, and {} on one; give gpu or gpu:N", name, who);
}

StatusOr<GpuDevices> OpenGpus(const std::string& name, const GpuOptions& options) {
  // An invalid name is reported before a back end is loaded.
  RIVULET_RETURN_IF_ERROR(CheckGpuNames(name));
  return Annotated(name, Open(name, options));
}

StatusOr<TrainingDevice> DeviceOf(const DeviceOptions& options, const ChooseOne& one) {
  TrainingDevice on;
  if (options.device == "cpu") {
    if (!options.lanes && !options.soft && !options.tf32) return on;
    return UsageError("{0} is for a GPU; give --device gpu too, or leave {0} out", options.soft   ? "--soft"
                                                                                   : options.tf32 ? "--tf32"
                                                                                                  : "--lanes");
  }
  on.check = options.device == kCheck;
  const GpuOptions how{.allow_tf32 = options.tf32};
  const std::string name = on.check ? "gpu" : options.device;
  RIVULET_RETURN_IF_ERROR(CheckGpuNames(name));
  RIVULET_ASSIGN_OR_RETURN(GpuDevices devices, Annotated(options.device, Open(name, how, one)));
  on.device = std::move(devices.front());
  on.more.assign(std::make_move_iterator(devices.begin() + 1), std::make_move_iterator(devices.end()));
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
