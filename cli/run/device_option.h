// Option --device: the device that trains clients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "client/training/device/training_device.h"
#include "engine/base/status.h"

namespace rivulet {

struct DeviceOptions {
  std::string device = "cpu";  // "cpu", "check", or as OpenGpus takes it
  std::optional<int64_t> lanes;
  bool soft = false;
  bool tf32 = false;
};

// Declares --device, --lanes, --soft and --tf32.
void AddDeviceOptions(Command& command, DeviceOptions* options);

using GpuDevices = std::vector<std::shared_ptr<GpuDevice>>;

// The GPUs that `name` names: "gpu" (the first), "gpu:N", several: "gpu:0,gpu:2", or all there are: "gpu:all". Errors
// as DeviceOf.
StatusOr<GpuDevices> OpenGpus(const std::string& name, const GpuOptions& options = {});

// A usage error where `name` is none that OpenGpus takes. Looks for no GPU.
Status CheckGpuNames(const std::string& name);

// A usage error where `name` names several; `who` is what takes one: "a client trains".
Status CheckOneGpu(const std::string& name, std::string_view who);

// Of so many GPUs the one to take, from 0.
using ChooseOne = std::function<size_t(size_t count)>;

// Opens it. Where a process is to take one of the GPUs that are named, as ranks of a machine do, `one` says which, and
// "gpu" names all. INVALID_ARGUMENT (a usage error): no such name, or what only a device has, without
// one. FAILED_PRECONDITION, UNAVAILABLE: there is no such device here, why, and what to do about it.
StatusOr<TrainingDevice> DeviceOf(const DeviceOptions& options, const ChooseOne& one = nullptr);

// The arguments that give these options again, with a blank before; "" where nothing was said.
std::string ShellArguments(const DeviceOptions& options);

}  // namespace rivulet
