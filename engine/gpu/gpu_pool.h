// Pool allocator of a device's memory. It divides regions taken from the driver into blocks at multiples of 256 bytes:
// best fit, lowest address first, adjacent free blocks merged. A region returns to the driver only when the limit would
// be exceeded otherwise, so that a second run needs no driver allocation.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/status.h"

namespace rivulet {

// Not thread-safe. Independent of devices: it requests regions through functions.
class GpuPool {
 public:
  struct Source {
    // Returns null if the driver has no memory left. Other errors are passed on.
    std::function<StatusOr<std::byte*>(size_t bytes)> take;
    std::function<void(std::byte* region)> give_back;
    // The host can access the memory, as for an emulated device. Then freed memory is filled with NaNs, and the address
    // sanitizer reports accesses to free blocks.
    bool host_memory = false;
  };
  // Holds at most `limit` bytes, in regions whose sizes are multiples of 256. With `grow` each region is at least as
  // large as all before it (the first 2 MiB, at most 1 GiB); without, the first is the whole limit.
  GpuPool(Source source, size_t limit, bool grow);
  ~GpuPool();
  GpuPool(const GpuPool&) = delete;
  GpuPool& operator=(const GpuPool&) = delete;

  // RESOURCE_EXHAUSTED reports the request by `what`, the free memory, and the largest holders.
  StatusOr<std::byte*> Allocate(size_t bytes, std::string_view what);
  void Release(std::byte* memory);
  size_t in_use() const { return in_use_; }
  size_t held() const { return held_; }

 private:
  struct Stretch {
    std::byte* region;
    size_t bytes;
    bool free;
    std::string what;
  };
  using Stretches = std::map<std::byte*, Stretch>;

  bool Grow(size_t bytes, Status* error);
  void AddFree(Stretches::iterator stretch);
  void RemoveFree(Stretches::iterator stretch) { free_.erase({stretch->second.bytes, stretch->first}); }
  size_t GiveBackFreeRegions();
  Status Exhausted(size_t bytes, std::string_view what) const;
  std::string LargestHolders() const;

  const Source source_;
  const size_t limit_;
  const bool grow_;
  size_t in_use_ = 0, held_ = 0;
  std::map<std::byte*, size_t> regions_;
  Stretches stretches_;
  std::set<std::pair<size_t, std::byte*>> free_;
};

}  // namespace rivulet
