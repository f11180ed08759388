// Sums of numbers in the memories of several devices of one process, at each device's address; the first device
// receives the result. NCCL uses the links between the devices and bypasses the host. Sums are of integers modulo 2^64
// or 2^32: exact, and the same in any order.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/gpu/gpu_device.h"

namespace rivulet {

// Returns the reason why this back end cannot add on devices, and the remedy; "" if it can.
std::string GpuSumMissing(const RivuletGpuApi& api);

// A sum over a fixed set of devices. Not thread-safe.
class GpuSum {
 public:
  // The devices must be distinct and of one back end. UNAVAILABLE: GpuSumMissing. INTERNAL: the library's message.
  static StatusOr<std::unique_ptr<GpuSum>> Create(std::span<const std::shared_ptr<GpuDevice>> devices);
  ~GpuSum();
  // Adds the arrays at `numbers`, one per device, in the devices' streams. The first device's array receives the sum;
  // the others are unchanged. `streams` has the devices' order. `bytes` is the size of a number: 8 or 4.
  Status Add(std::span<GpuStream* const> streams, std::span<std::byte* const> numbers, size_t count, size_t bytes);

 private:
  explicit GpuSum(std::span<const std::shared_ptr<GpuDevice>> devices) : devices_(devices.begin(), devices.end()) {}
  Status Error(int code, std::string_view doing) const;
  const RivuletGpuApi& api() const { return devices_[0]->api(); }

  const std::vector<std::shared_ptr<GpuDevice>> devices_;
  void* sum_ = nullptr;
};

}  // namespace rivulet
