// The back end over the CUDA runtime: the table of gpu_api.h, for librivulet_cuda.so. A handle is CUDA's own: a stream
// is a cudaStream_t (device_code.h launches into it), an event a cudaEvent_t, a graph a cudaGraphExec_t.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "engine/gpu/cuda/cupti_records.h"
#include "engine/gpu/cuda/nccl_sum.h"
#include "engine/gpu/cuda/toolkit_libraries.h"
#include "engine/gpu/kernel_list.h"

namespace rivulet::gpu {
namespace {

// What failed is told by the call that failed; the runtime would tell it a second time, to the next who asks.
int Told(cudaError_t error) {
  if (error == cudaSuccess) return 0;
  cudaGetLastError();
  return error == cudaErrorMemoryAllocation ? RIVULET_GPU_OUT_OF_MEMORY : static_cast<int>(error);
}

cudaStream_t Stream(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t Event(void* event) { return static_cast<cudaEvent_t>(event); }

const char* ErrorText(int error) {
  if (error == RIVULET_GPU_OUT_OF_MEMORY) return "out of memory";
  if (error == RIVULET_GPU_NOT_THERE) return "a library that this needs is not here";
  if (const char* of_nccl = NcclErrorText(error); of_nccl != nullptr) return of_nccl;
  if (const char* of_cupti = CuptiErrorText(error); of_cupti != nullptr) return of_cupti;
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}

// A machine without a driver, or without a device, is no error.
int Count(int32_t* devices, const char** why) {
  *devices = 0;
  *why = "";
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    cudaGetLastError();
    *why = "no NVIDIA driver is loaded";
    return 0;
  }
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver) {
    cudaGetLastError();
    *why = "the NVIDIA driver is older than this library's CUDA; update the driver";
    return 0;
  }
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) {
    cudaGetLastError();
    *why = "the driver shows no device (CUDA_VISIBLE_DEVICES may hide it)";
    return 0;
  }
  *devices = count;
  return Told(error);
}

int Attribute(int32_t device, cudaDeviceAttr attribute) {
  int value = 0;
  return cudaDeviceGetAttribute(&value, attribute, device) == cudaSuccess ? value : 0;
}

int Properties(int32_t device, RivuletGpuProperties* properties) {
  cudaDeviceProp known;
  if (const int code = Told(cudaGetDeviceProperties(&known, device)); code != 0) return code;
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "%s", known.name);
  int driver = 0;
  cudaDriverGetVersion(&driver);
  std::snprintf(properties->driver, sizeof(properties->driver), "CUDA %d.%d", driver / 1000, driver % 1000 / 10);
  properties->memory_bytes = known.totalGlobalMem;
  properties->multiprocessors = known.multiProcessorCount;
  properties->compute_major = known.major;
  properties->compute_minor = known.minor;
  properties->clock_hertz = 1e3 * Attribute(device, cudaDevAttrClockRate);
  // Twice a clock, as wide as the bus.
  properties->memory_bytes_per_second =
      2e3 * Attribute(device, cudaDevAttrMemoryClockRate) * (Attribute(device, cudaDevAttrGlobalMemoryBusWidth) / 8.0);
  if (const int code = Told(cudaSetDevice(device)); code != 0) return code;
  size_t total = 0;
  return Told(cudaMemGetInfo(&properties->free_bytes, &total));
}

int UseDevice(int32_t device) { return Told(cudaSetDevice(device)); }

int Allocate(int32_t device, size_t bytes, void** memory) {
  if (const int code = UseDevice(device); code != 0) return code;
  return Told(cudaMalloc(memory, bytes));
}

int Release(int32_t device, void* memory) {
  if (const int code = UseDevice(device); code != 0) return code;
  return Told(cudaFree(memory));
}

int AllocatePinned(size_t bytes, void** memory) { return Told(cudaHostAlloc(memory, bytes, cudaHostAllocPortable)); }
int ReleasePinned(void* memory) { return Told(cudaFreeHost(memory)); }

int StreamCreate(int32_t device, void** stream) {
  if (const int code = UseDevice(device); code != 0) return code;
  cudaStream_t made = nullptr;
  const int code = Told(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
  *stream = made;
  return code;
}
int StreamDestroy(void* stream) { return Told(cudaStreamDestroy(Stream(stream))); }
int StreamWait(void* stream) { return Told(cudaStreamSynchronize(Stream(stream))); }

int Copy(void* stream, void* to, const void* from, size_t bytes, RivuletGpuCopyKind kind) {
  const cudaMemcpyKind way = kind == RIVULET_GPU_COPY_TO_DEVICE ? cudaMemcpyHostToDevice
                             : kind == RIVULET_GPU_COPY_TO_HOST ? cudaMemcpyDeviceToHost
                                                                : cudaMemcpyDeviceToDevice;
  return Told(cudaMemcpyAsync(to, from, bytes, way, Stream(stream)));
}
int Fill(void* stream, void* to, int byte, size_t bytes) {
  return Told(cudaMemsetAsync(to, byte, bytes, Stream(stream)));
}

int EventCreate(int32_t device, void** event) {
  if (const int code = UseDevice(device); code != 0) return code;
  cudaEvent_t made = nullptr;
  const int code = Told(cudaEventCreate(&made));
  *event = made;
  return code;
}
int EventDestroy(void* event) { return Told(cudaEventDestroy(Event(event))); }
int EventRecord(void* event, void* stream) { return Told(cudaEventRecord(Event(event), Stream(stream))); }
int StreamWaitEvent(void* stream, void* event) {
  return Told(cudaStreamWaitEvent(Stream(stream), Event(event), cudaEventWaitDefault));
}
int EventMilliseconds(void* from, void* to, float* milliseconds) {
  return Told(cudaEventElapsedTime(milliseconds, Event(from), Event(to)));
}

// Of this thread alone: others go on allocating.
int CaptureBegin(void* stream) {
  return Told(cudaStreamBeginCapture(Stream(stream), cudaStreamCaptureModeThreadLocal));
}
int CaptureEnd(void* stream, void** graph) {
  cudaGraph_t captured = nullptr;
  if (const int code = Told(cudaStreamEndCapture(Stream(stream), &captured)); code != 0) return code;
  cudaGraphExec_t made = nullptr;
  const int code = Told(cudaGraphInstantiate(&made, captured, 0));
  cudaGraphDestroy(captured);
  *graph = made;
  return code;
}
int GraphLaunch(void* graph, void* stream) {
  return Told(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), Stream(stream)));
}
// One that runs goes when it has run.
int GraphDestroy(void* graph) { return Told(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph))); }

#define RIVULET_TEXT_(text) #text
#define RIVULET_TEXT(text) RIVULET_TEXT_(text)

const RivuletGpuApi& Backend() {
  static const std::vector<RivuletGpuKernel> kernels = KernelList::All();
  static const RivuletGpuApi api = {
      .abi = RIVULET_GPU_ABI,
      .backend = "CUDA " RIVULET_TEXT(__CUDACC_VER_MAJOR__) "." RIVULET_TEXT(__CUDACC_VER_MINOR__),
      .error_text = ErrorText,
      .count = Count,
      .properties = Properties,
      .use_device = UseDevice,
      .allocate = Allocate,
      .release = Release,
      .allocate_pinned = AllocatePinned,
      .release_pinned = ReleasePinned,
      .stream_create = StreamCreate,
      .stream_destroy = StreamDestroy,
      .stream_wait = StreamWait,
      .copy = Copy,
      .fill = Fill,
      .event_create = EventCreate,
      .event_destroy = EventDestroy,
      .event_record = EventRecord,
      .stream_wait_event = StreamWaitEvent,
      .event_milliseconds = EventMilliseconds,
      .capture_begin = CaptureBegin,
      .capture_end = CaptureEnd,
      .graph_launch = GraphLaunch,
      .graph_destroy = GraphDestroy,
      .activity_missing = CuptiMissing,
      .activity_start = CuptiStart,
      .activity_stop = CuptiStop,
      .activity_clock = CuptiClock,
      .activity_label = CuptiLabel,
      .libraries = ToolkitLibraries,
      .sum_missing = NcclMissing,
      .sum_create = NcclSumCreate,
      .sum_destroy = NcclSumDestroy,
      .sum_add = NcclSumAdd,
      .kernels = kernels.data(),
      .kernel_count = kernels.size(),
  };
  return api;
}

}  // namespace
}  // namespace rivulet::gpu

extern "C" __attribute__((visibility("default"))) const RivuletGpuApi* rivulet_gpu_api() {
  // A kernel's code is brought to the device when the library is opened, and not when it is first launched, which may
  // be while a stream is captured. Whoever has set it knows why.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  return &rivulet::gpu::Backend();
}
