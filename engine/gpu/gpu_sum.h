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

// Why this back end adds nothing on devices, and the mend; "" where it does.
std::string GpuSumMissing(const RivuletGpuApi& api);

// Not thread-safe.
class GpuSum {
 public:
  // Of one back end, each once. UNAVAILABLE: GpuSumMissing. INTERNAL: the library fails, in its words.
  static StatusOr<std::unique_ptr<GpuSum>> Create(std::span<const std::shared_ptr<GpuDevice>> devices);
  ~GpuSum();
  // Puts into each device's stream, all in the order of the devices: what lies at `numbers` there is added, and is at
  // the first's afterwards; at the others it is as it was. `bytes` is a number's: 8 or 4.
  Status Add(std::span<GpuStream* const> streams, std::span<std::byte* const> numbers, size_t count, size_t bytes);

 private:
  explicit GpuSum(std::span<const std::shared_ptr<GpuDevice>> devices) : devices_(devices.begin(), devices.end()) {}
  Status Error(int code, std::string_view doing) const;
  const RivuletGpuApi& api() const { return devices_[0]->api(); }

  const std::vector<std::shared_ptr<GpuDevice>> devices_;
  void* sum_ = nullptr;
};

}  // namespace rivulet
