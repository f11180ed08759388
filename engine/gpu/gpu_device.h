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

// Limits for a process's use of a device's memory, with the names of TensorFlow's GPUOptions.
struct GpuOptions {
  double per_process_gpu_memory_fraction = 0.9;  // share of the memory that is free when the device opens; in (0, 1]
  bool allow_growth = true;                      // allocate memory on demand, in steps that double
  size_t limit_bytes = 0;                        // absolute limit; 0: only the fraction applies
  // Allows float32 products and convolutions on tensor cores, which use 10 of the 23 fraction bits of each factor and
  // sum in float32.
  bool allow_tf32 = false;
};

// A block of a device's memory, at a multiple of 256 bytes. The destructor returns it to the device's pool. The host
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

// Page-locked host memory, which copies to and from a device use without a pause.
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

// The work put into a stream between BeginCapture and EndCapture; it is run as a whole.
class GpuGraph {
 public:
  ~GpuGraph();

 private:
  friend class GpuStream;
  GpuGraph() = default;
  std::shared_ptr<GpuDevice> device_;
  void* graph_ = nullptr;
};

// A position in a stream's work.
class GpuEvent {
 public:
  ~GpuEvent();
  // Time from `from` to this event. Both must be recorded and reached. FAILED_PRECONDITION: they are not.
  StatusOr<double> MillisecondsSince(const GpuEvent& from) const;

 private:
  friend class GpuDevice;
  friend class GpuStream;
  GpuEvent() = default;
  std::shared_ptr<GpuDevice> device_;
  void* event_ = nullptr;
};

// A queue of work that runs in order. Functions add work and return before it is done. An error of the work may be
// returned by any later call, and is returned by Wait. Not thread-safe. Arguments must stay valid until Wait.
class GpuStream {
 public:
  ~GpuStream();
  GpuDevice& device() const { return *device_; }
  // `to` is device memory.
  Status ToDevice(void* to, const void* from, size_t bytes);
  Status ToHost(void* to, const void* from, size_t bytes);
  Status OnDevice(void* to, const void* from, size_t bytes);
  Status Fill(void* to, int byte, size_t bytes);
  // Launches a kernel of the back end by name; `Arguments` is the struct in its header. NOT_FOUND: an unknown name, or
  // the kernel's library is missing; nothing was put into the stream. INTERNAL: the arguments have another size. The
  // name is looked up each time, since steps are captured once and then run as a graph.
  template <typename Arguments>
  Status Launch(std::string_view kernel, const Arguments& arguments) {
    static_assert(std::is_trivially_copyable_v<Arguments>);
    return LaunchNamed(kernel, &arguments, sizeof(arguments));
  }
  // Sets the label of work that this thread puts into streams from now on, for records (gpu_activity.h). 0: no
  // label.
  Status Label(uint64_t label);
  // Waits for all work in the stream. INTERNAL: a kernel failed, with the back end's message.
  Status Wait();
  // Places `event` after all work in the stream so far, instead of its previous position.
  Status Record(GpuEvent& event);
  // Later work in this stream runs after the event of the same device. Not while either stream is captured.
  Status WaitFor(const GpuEvent& event);
  // Until EndCapture, work is recorded and not run; this thread must not allocate from any device, nor wait.
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

// An open device. Thread-safe. Its memory comes from a pool, which keeps freed blocks and reuses them, best fit first.
// So runs after the first need no driver allocation.
class GpuDevice : public std::enable_shared_from_this<GpuDevice> {
 public:
  // Opens device `number` of a back end. FAILED_PRECONDITION: there is no such device, with the reason.
  // INVALID_ARGUMENT: invalid options.
  static StatusOr<std::shared_ptr<GpuDevice>> Open(const RivuletGpuApi& api, int number,
                                                   const GpuOptions& options = {});
  ~GpuDevice();
  int number() const { return number_; }
  std::string_view backend() const { return api_.backend; }
  const RivuletGpuApi& api() const { return api_; }
  const RivuletGpuProperties& properties() const { return properties_; }
  // RESOURCE_EXHAUSTED reports the request by `what`, the free memory and the largest holders.
  StatusOr<GpuMemory> Allocate(size_t bytes, std::string_view what);
  StatusOr<PinnedMemory> AllocatePinned(size_t bytes);
  StatusOr<std::unique_ptr<GpuStream>> NewStream();
  StatusOr<std::unique_ptr<GpuEvent>> NewEvent();
  size_t bytes_in_use() const;
  size_t bytes_held() const;  // bytes allocated from the driver
  size_t bytes_limit() const { return limit_; }
  bool allows_tf32() const { return allows_tf32_; }
  // Returns the bytes that Allocate may still provide, if one free block is large enough.
  size_t bytes_available() const;

 private:
  friend class GpuEvent;
  friend class GpuGraph;
  friend class GpuMemory;
  friend class GpuStream;
  friend class PinnedMemory;

  GpuDevice(const RivuletGpuApi& api, int number, const RivuletGpuProperties& properties, size_t limit,
            bool allows_tf32);
  // Returns OK for 0; else "GPU 0: what it was doing: the back end's words".
  Status Error(int code, std::string_view doing) const;
  // Directs the calling thread's work to this device from now on.
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

// The back end of librivulet_cuda.so, which is beside the program, in the installation folder, or at the path in
// RIVULET_CUDA_LIBRARY. Opened once. UNAVAILABLE: built without it, not found, or it cannot be opened (a toolkit
// library is missing); the message has the reason and remedy.
StatusOr<const RivuletGpuApi*> CudaBackend();

}  // namespace rivulet
