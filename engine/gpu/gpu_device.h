// Devices: memory, work streams and kernels by name, over any back end (gpu_api.h). Programs compiled for a device run
// here (engine/program/gpu_program.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>

#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/gpu/gpu_api.h"

namespace rivulet {

class GpuDevice;
class GpuPool;  // engine/gpu/gpu_pool.h
class GpuSum;   // engine/gpu/gpu_sum.h

// How much of a device's memory a process takes. Named as TensorFlow's GPUOptions are.
struct GpuOptions {
  double per_process_gpu_memory_fraction = 0.9;  // of what is free when the device is opened; in (0, 1]
  bool allow_growth = true;                      // take memory as it is needed, in steps that double
  size_t limit_bytes = 0;                        // never more than that; 0: the fraction alone
  // Products and convolutions of float32 by tensor cores, which take 10 bits of the 23 behind the point of each factor
  // and sum in float32.
  bool allow_tf32 = false;
};

// A stretch of a device's memory, at a multiple of 256 bytes, given back to the device's pool when it goes. The host
// cannot read it.
class GpuMemory {
 public:
  GpuMemory() = default;
  GpuMemory(GpuMemory&& other) noexcept;
  GpuMemory& operator=(GpuMemory&& other) noexcept;
  ~GpuMemory();
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  friend class GpuDevice;
  std::shared_ptr<GpuDevice> device_;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Memory of the host that copies to and from a device go through without a pause.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;
  ~PinnedMemory();
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  friend class GpuDevice;
  std::shared_ptr<GpuDevice> device_;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Work that was put into a stream between BeginCapture and EndCapture, to be run as a whole.
class GpuGraph {
 public:
  ~GpuGraph();

 private:
  friend class GpuStream;
  GpuGraph() = default;
  std::shared_ptr<GpuDevice> device_;
  void* graph_ = nullptr;
};

// A place in a stream's work.
class GpuEvent {
 public:
  ~GpuEvent();
  // From this place of `from` to this; both recorded, and waited for. FAILED_PRECONDITION: not yet.
  StatusOr<double> MillisecondsSince(const GpuEvent& from) const;

 private:
  friend class GpuDevice;
  friend class GpuStream;
  GpuEvent() = default;
  std::shared_ptr<GpuDevice> device_;
  void* event_ = nullptr;
};

// Work in order. Functions put it there and come back before it is done; an error of what ran may be told by any later
// call, and is told by Wait. Not thread-safe. What is named in a call must stay until Wait.
class GpuStream {
 public:
  ~GpuStream();
  GpuDevice& device() const { return *device_; }
  // `to` is the device's.
  Status ToDevice(void* to, const void* from, size_t bytes);
  Status ToHost(void* to, const void* from, size_t bytes);
  Status OnDevice(void* to, const void* from, size_t bytes);
  Status Fill(void* to, int byte, size_t bytes);
  // A kernel of the back end, by name; `Arguments` is the struct that its header declares. NOT_FOUND: there is none of
  // that name, or it is of a library that is not here; nothing was put into the stream. INTERNAL: its arguments are of
  // another size. Looked up each time, since steps are captured once and then run as a graph.
  template <typename Arguments>
  Status Launch(std::string_view kernel, const Arguments& arguments) {
    static_assert(std::is_trivially_copyable_v<Arguments>);
    return LaunchNamed(kernel, &arguments, sizeof(arguments));
  }
  // What this thread puts into streams from now on bears it in records (gpu_activity.h), until another is given; 0:
  // none.
  Status Label(uint64_t label);
  // Until all that was put here is done. INTERNAL: a kernel failed, in the back end's words.
  Status Wait();
  // `event` is behind all that was put here so far; what it was before is forgotten.
  Status Record(GpuEvent& event);
  // What is put here from now on runs after the event. Not of another device, nor while either stream is captured.
  Status WaitFor(const GpuEvent& event);
  // Between the two nothing runs; nobody allocates of any device in this thread, nor waits.
  Status BeginCapture();
  StatusOr<std::unique_ptr<GpuGraph>> EndCapture();
  Status Launch(const GpuGraph& graph);

 private:
  friend class GpuDevice;
  friend class GpuSum;
  GpuStream() = default;
  Status LaunchNamed(std::string_view kernel, const void* arguments, size_t bytes);
  Status Copy(void* to, const void* from, size_t bytes, RivuletGpuCopyKind kind);
  std::shared_ptr<GpuDevice> device_;
  void* stream_ = nullptr;
  bool capturing_ = false;
};

// One device, opened. Thread-safe. Its memory comes from a pool: stretches that were given back are kept and given out
// again, best fit first, so that a run after the first allocates nothing of the driver.
class GpuDevice : public std::enable_shared_from_this<GpuDevice> {
 public:
  // Device `number` of a back end. FAILED_PRECONDITION: there is none of that number, and why. INVALID_ARGUMENT:
  // options that cannot be.
  static StatusOr<std::shared_ptr<GpuDevice>> Open(const RivuletGpuApi& api, int number,
                                                   const GpuOptions& options = {});
  ~GpuDevice();
  int number() const { return number_; }
  std::string_view backend() const { return api_.backend; }
  const RivuletGpuApi& api() const { return api_; }
  const RivuletGpuProperties& properties() const { return properties_; }
  // RESOURCE_EXHAUSTED: says how much was asked for by `what`, what is free and who holds the most.
  StatusOr<GpuMemory> Allocate(size_t bytes, std::string_view what);
  StatusOr<PinnedMemory> AllocatePinned(size_t bytes);
  StatusOr<std::unique_ptr<GpuStream>> NewStream();
  StatusOr<std::unique_ptr<GpuEvent>> NewEvent();
  size_t bytes_in_use() const;
  size_t bytes_held() const;  // of the driver's
  size_t bytes_limit() const { return limit_; }
  bool allows_tf32() const { return allows_tf32_; }
  // What Allocate may still give, if one piece of it is long enough.
  size_t bytes_available() const;

 private:
  friend class GpuEvent;
  friend class GpuGraph;
  friend class GpuMemory;
  friend class GpuStream;
  friend class PinnedMemory;

  GpuDevice(const RivuletGpuApi& api, int number, const RivuletGpuProperties& properties, size_t limit,
            bool allows_tf32);
  // OK for 0; else "GPU 0: what it was doing: the back end's words".
  Status Error(int code, std::string_view doing) const;
  // The calling thread's work goes to this device from here on.
  Status Use() const { return Error(api_.use_device(number_), "choosing the device"); }
  void Release(std::byte* memory);

  const RivuletGpuApi& api_;
  const int number_;
  const RivuletGpuProperties properties_;
  const size_t limit_;
  const bool allows_tf32_;
  std::unordered_map<std::string_view, const RivuletGpuKernel*> kernels_;
  mutable Mutex mutex_;
  std::unique_ptr<GpuPool> pool_ GUARDED_BY(mutex_);
};

// The back end of librivulet_cuda.so: beside the program, in the folder that the package installs it to, or where
// RIVULET_CUDA_LIBRARY says. Opened once. UNAVAILABLE: built without it, not found, or it cannot be opened (a library
// of the toolkit is missing): the sentence says which and the mend.
StatusOr<const RivuletGpuApi*> CudaBackend();

}  // namespace rivulet
