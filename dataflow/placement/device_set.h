// The devices that a graph may be placed on.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/device_name.h"
#include "engine/graph/graph.h"

namespace rivulet {

struct PlacementDevice {
  DeviceName name;                            // fully specified
  int priority = 0;                           // unconstrained nodes prefer the highest
  uint64_t incarnation = 1;                   // changes at a restart, so that keys of transfers differ
  std::function<bool(const Node&)> supports;  // whether the device can run the node
};

// Devices in their order of preference for unconstrained nodes: by
// priority, then type, then job, replica, task and number.
class DeviceSet {
 public:
  DeviceSet() = default;
  // INVALID_ARGUMENT: an incomplete name, a repeated name, or no devices.
  static StatusOr<DeviceSet> Create(std::vector<PlacementDevice> devices);
  // Devices "/job:localhost/replica:0/task:0/device:CPU:0" and so on, which run nodes with a CPU kernel (RunsOnCpu).
  // INVALID_ARGUMENT: fewer than 1 or more than 64.
  static StatusOr<DeviceSet> LocalCpus(int count);
  // The same, and "/job:localhost/replica:0/task:0/device:GPU:0" and so on, which run nodes with a device kernel
  // (RunsOnGpu) and are preferred. INVALID_ARGUMENT also: fewer than 0 or more than 64 GPUs.
  static StatusOr<DeviceSet> Local(int cpus, int gpus);

  std::span<const PlacementDevice> devices() const { return devices_; }
  size_t size() const { return devices_.size(); }
  const PlacementDevice& operator[](size_t i) const { return devices_[i]; }
  // The devices that match at least one of `filters`, each a part of a device name ("/job:ps", "/task:3"); all if there
  // are no filters. INVALID_ARGUMENT: a filter is not a device name, or no device matches.
  StatusOr<DeviceSet> Filter(std::span<const std::string> filters) const;
  // "[ /job:…, /job:… ]", for errors; shows only the first of many devices.
  std::string ToString() const;

 private:
  std::vector<PlacementDevice> devices_;
};

// Returns true if the node is structural, asynchronous, or has a CPU kernel.
bool RunsOnCpu(const Node& node);
// Returns true if the node is structural, or has a device kernel for its type; false for strings and variants, which
// are in host memory.
bool RunsOnGpu(const Node& node);

}  // namespace rivulet
