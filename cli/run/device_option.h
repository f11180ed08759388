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
  std::string device = "cpu";  // "cpu", "check", or a name for OpenGpus
  std::optional<int64_t> lanes;
  bool soft = false;
  bool tf32 = false;
};

// Declares --device, --lanes, --soft and --tf32.
void AddDeviceOptions(Command& command, DeviceOptions* options);

using GpuDevices = std::vector<std::shared_ptr<GpuDevice>>;

// Opens the GPUs of `name`: "gpu" (the first), "gpu:N", several: "gpu:0,gpu:2", or all: "gpu:all". Errors as
// DeviceOf.
StatusOr<GpuDevices> OpenGpus(const std::string& name, const GpuOptions& options = {});

// A usage error if OpenGpus does not take `name`. Does not access GPUs.
Status CheckGpuNames(const std::string& name);

// A usage error if `name` selects several; `who` names the user: "a client trains".
Status CheckOneGpu(const std::string& name, std::string_view who);

// Gives the index of the chosen GPU among `count`, from 0.
using ChooseOne = std::function<size_t(size_t count)>;

// Opens the device. If a process needs only one of the selected GPUs, as ranks of one machine do, `one` chooses it, and
// "gpu" means all. INVALID_ARGUMENT (a usage error): an invalid name, or an option that needs a device, without one.
// FAILED_PRECONDITION, UNAVAILABLE: there is no such device here; the message has the reason and the remedy.
StatusOr<TrainingDevice> DeviceOf(const DeviceOptions& options, const ChooseOne& one = nullptr);

// The arguments that reproduce these options, with a blank before; "" for the defaults.
std::string ShellArguments(const DeviceOptions& options);

}  // namespace rivulet
