// --device: where clients are trained.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/command.h"
#include "client/training_device.h"
#include "engine/base/status.h"

namespace rivulet {

struct DeviceOptions {
  std::string device = "cpu";  // "cpu", "gpu", "gpu:N", "check"
  std::optional<int64_t> lanes;
  bool soft = false;
  bool tf32 = false;
};

// Declares --device, --lanes, --soft and --tf32.
void AddDeviceOptions(Command& command, DeviceOptions* options);

// Opens it. INVALID_ARGUMENT (a usage error): no such name, or what only a device has, without one.
// FAILED_PRECONDITION, UNAVAILABLE: there is no such device here, why, and what to do about it.
StatusOr<TrainingDevice> DeviceOf(const DeviceOptions& options);

// The arguments that give these options again, with a blank before; "" where nothing was said.
std::string ShellArguments(const DeviceOptions& options);

}  // namespace rivulet
