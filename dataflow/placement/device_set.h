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
  DeviceName name;                            // complete
  int priority = 0;                           // nodes that may live anywhere go to the highest
  uint64_t incarnation = 1;                   // another number after a restart: keys of transfers tell the two apart
  std::function<bool(const Node&)> supports;  // whether the device can run the node
};

// In the order in which a node without a constraint prefers them: by priority, then type, then job, replica, task and
// number.
class DeviceSet {
 public:
  DeviceSet() = default;
  // INVALID_ARGUMENT: an incomplete name, two devices of one name, or none.
  static StatusOr<DeviceSet> Create(std::vector<PlacementDevice> devices);
  // "/job:localhost/replica:0/task:0/device:CPU:0" and on, which run what has a kernel here (RunsOnCpu).
  // INVALID_ARGUMENT: fewer than 1 or more than 64.
  static StatusOr<DeviceSet> LocalCpus(int count);
  // The same and "/job:localhost/replica:0/task:0/device:GPU:0" and on, which run what has a kernel for devices
  // (RunsOnGpu), and are preferred. INVALID_ARGUMENT also: fewer than 0 or more than 64 of them.
  static StatusOr<DeviceSet> Local(int cpus, int gpus);

  std::span<const PlacementDevice> devices() const { return devices_; }
  size_t size() const { return devices_.size(); }
  const PlacementDevice& operator[](size_t i) const { return devices_[i]; }
  // Those that fit at least one of `filters`, each a part of a device name ("/job:ps", "/task:3"); all when there is
  // none. INVALID_ARGUMENT: a filter that is no device name, or no device is left.
  StatusOr<DeviceSet> Filter(std::span<const std::string> filters) const;
  // "[ /job:…, /job:… ]", for errors; of many devices the first ones.
  std::string ToString() const;

 private:
  std::vector<PlacementDevice> devices_;
};

// A kernel, a structural op or an asynchronous op of the CPU.
bool RunsOnCpu(const Node& node);
// A structural op, or one with a kernel for devices, of the node's type; none of text or of variants, which lie in the
// host's memory.
bool RunsOnGpu(const Node& node);

}  // namespace rivulet
