#include "tests/emulated_gpu/emulated_backend.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <vector>

#include "engine/gpu/kernel_list.h"
#include "tests/emulated_gpu/block_runner.h"
#include "tests/emulated_gpu/cuda_language.h"
#include "tests/emulated_gpu/emulated_activity.h"
#include "tests/emulated_gpu/emulated_stream.h"
#include "tests/emulated_gpu/emulated_sum.h"

namespace rivulet::gpu {
namespace emulated {
namespace {

constexpr int kFilling = 0xFF;
constexpr size_t kAlignment = 256;  // a device's

struct Allocation {
  int32_t device;
  size_t bytes;
};

// With BackendMutex.
struct State {
  EmulatedSettings settings;
  EmulatedCounts counts;
  std::map<void*, Allocation> memory;
  std::map<int32_t, size_t> taken;  // by device
};

State& TheState() {
  static State* state = new State;  // streams may still run when statics go
  return *state;
}

using Lock = std::lock_guard<std::mutex>;

struct Event {
  std::shared_ptr<Mark> mark;
};

struct Graph {
  std::shared_ptr<const std::vector<Work>> work;
};

const char* ErrorText(int error) {
  if (error == RIVULET_GPU_OUT_OF_MEMORY) return "out of memory";
  if (error == kInvalid) return "invalid argument";
  if (error == kCapturing) return "not possible while a stream is captured";
  if (error != kFailed) return "unknown error";
  const Lock lock(BackendMutex());
  thread_local std::string text;
  text = LastFailure();
  return text.c_str();
}

int Count(int32_t* devices, const char** why) {
  const Lock lock(BackendMutex());
  *devices = TheState().settings.devices;
  *why = *devices == 0 ? "the emulated back end was told to have none" : "";
  return kDone;
}

int Properties(int32_t device, RivuletGpuProperties* properties) {
  const Lock lock(BackendMutex());
  const State& state = TheState();
  if (device < 0 || device >= state.settings.devices) return kInvalid;
  *properties = {};
  const bool another = device == state.settings.of_another_model;
  std::snprintf(properties->name, sizeof(properties->name), another ? "Another emulated device" : "Emulated device");
  std::snprintf(properties->driver, sizeof(properties->driver), "none");
  properties->memory_bytes = state.settings.memory_bytes;
  const auto taken = state.taken.find(device);
  const size_t in_use = taken == state.taken.end() ? 0 : taken->second;
  properties->free_bytes = in_use < state.settings.memory_bytes ? state.settings.memory_bytes - in_use : 0;
  properties->multiprocessors = 1;
  return kDone;
}

int UseDevice(int32_t device) {
  const Lock lock(BackendMutex());
  if (device < 0 || device >= TheState().settings.devices) return kInvalid;
  CurrentDevice() = device;
  return kDone;
}

// operator new and not a multiple of the alignment: the sanitizer knows the exact end.
void* NewMemory(size_t bytes) {
  void* memory = ::operator new (bytes == 0 ? 1 : bytes, std::align_val_t{kAlignment}, std::nothrow);
  if (memory != nullptr) std::memset(memory, kFilling, bytes);
  return memory;
}

int Allocate(int32_t device, size_t bytes, void** memory) {
  const Lock lock(BackendMutex());
  State& state = TheState();
  if (Capturing()) return kCapturing;
  if (device < 0 || device >= state.settings.devices) return kInvalid;
  if (bytes > state.settings.memory_bytes || state.taken[device] > state.settings.memory_bytes - bytes) {
    return RIVULET_GPU_OUT_OF_MEMORY;
  }
  *memory = NewMemory(bytes);
  if (*memory == nullptr) return RIVULET_GPU_OUT_OF_MEMORY;
  state.memory[*memory] = {device, bytes};
  state.taken[device] += bytes;
  state.counts.bytes_allocated += bytes;
  ++state.counts.allocations;
  return kDone;
}

int Release(int32_t, void* memory) {
  if (memory == nullptr) return kDone;
  const Lock lock(BackendMutex());
  State& state = TheState();
  const auto found = state.memory.find(memory);
  if (found == state.memory.end()) return kInvalid;
  std::memset(memory, kFilling, found->second.bytes);
  state.taken[found->second.device] -= found->second.bytes;
  state.counts.bytes_allocated -= found->second.bytes;
  state.memory.erase(found);
  ::operator delete (memory, std::align_val_t{kAlignment});
  return kDone;
}

int AllocatePinned(size_t bytes, void** memory) {
  if (Capturing()) return kCapturing;
  *memory = NewMemory(bytes);
  return *memory == nullptr ? RIVULET_GPU_OUT_OF_MEMORY : static_cast<int>(kDone);
}

int ReleasePinned(void* memory) {
  ::operator delete (memory, std::align_val_t{kAlignment});
  return kDone;
}

int StreamCreate(int32_t device, void** stream) {
  *stream = new Stream(device);
  return kDone;
}

int StreamDestroy(void* stream) {
  const Lock lock(BackendMutex());
  delete static_cast<Stream*>(stream);
  return kDone;
}

int StreamWait(void* stream) {
  const Lock lock(BackendMutex());
  return Capturing() ? static_cast<int>(kCapturing) : static_cast<Stream*>(stream)->Finish();
}

int Copy(void* stream, void* to, const void* from, size_t bytes, RivuletGpuCopyKind kind) {
  const Lock lock(BackendMutex());
  EmulatedCounts& counts = TheState().counts;
  ++counts.calls;
  if (kind == RIVULET_GPU_COPY_TO_DEVICE) {
    ++counts.copies_to_device;
    counts.bytes_to_device += static_cast<int64_t>(bytes);
  } else if (kind == RIVULET_GPU_COPY_TO_HOST) {
    counts.bytes_to_host += static_cast<int64_t>(bytes);
  }
  Stream& in = *static_cast<Stream*>(stream);
  return in.Put(Recorded(in, RIVULET_GPU_ACTIVITY_COPY, "copy", bytes, [to, from, bytes] {
    if (bytes != 0) std::memmove(to, from, bytes);
    return static_cast<int>(kDone);
  }));
}

int Fill(void* stream, void* to, int byte, size_t bytes) {
  const Lock lock(BackendMutex());
  ++TheState().counts.calls;
  Stream& in = *static_cast<Stream*>(stream);
  return in.Put(Recorded(in, RIVULET_GPU_ACTIVITY_FILL, "fill", bytes, [to, byte, bytes] {
    if (bytes != 0) std::memset(to, byte, bytes);
    return static_cast<int>(kDone);
  }));
}

int EventCreate(int32_t, void** event) {
  *event = new Event;
  return kDone;
}

int EventDestroy(void* event) {
  delete static_cast<Event*>(event);
  return kDone;
}

int EventRecord(void* event, void* stream) {
  const Lock lock(BackendMutex());
  auto mark = std::make_shared<Mark>();
  const int code = static_cast<Stream*>(stream)->Record(mark);
  if (code == kDone) static_cast<Event*>(event)->mark = std::move(mark);
  return code;
}

int StreamWaitEvent(void* stream, void* event) {
  const Lock lock(BackendMutex());
  const std::shared_ptr<Mark>& mark = static_cast<Event*>(event)->mark;
  return mark == nullptr ? static_cast<int>(kDone) : static_cast<Stream*>(stream)->WaitFor(mark);
}

int EventMilliseconds(void* from, void* to, float* milliseconds) {
  const Lock lock(BackendMutex());
  const Mark* first = static_cast<Event*>(from)->mark.get();
  const Mark* last = static_cast<Event*>(to)->mark.get();
  // Not recorded, or not yet passed.
  if (first == nullptr || last == nullptr || first->stream != nullptr || last->stream != nullptr) return kInvalid;
  *milliseconds = static_cast<float>(last->milliseconds - first->milliseconds);
  return kDone;
}

int CaptureBegin(void* stream) {
  const Lock lock(BackendMutex());
  return static_cast<Stream*>(stream)->BeginCapture();
}

int CaptureEnd(void* stream, void** graph) {
  const Lock lock(BackendMutex());
  auto captured = std::make_unique<Graph>();
  const int code = static_cast<Stream*>(stream)->EndCapture(&captured->work);
  if (code == kDone) *graph = captured.release();
  return code;
}

int GraphLaunch(void* graph, void* stream) {
  const Lock lock(BackendMutex());
  ++TheState().counts.calls;
  ++TheState().counts.graph_launches;
  return static_cast<Stream*>(stream)->Put(UnderOneLabel([work = static_cast<Graph*>(graph)->work] {
    for (const Work& one : *work) {
      if (const int code = one(); code != kDone) return code;
    }
    return static_cast<int>(kDone);
  }));
}

int GraphDestroy(void* graph) {
  delete static_cast<Graph*>(graph);
  return kDone;
}

const RivuletGpuLibrary* Libraries(size_t* count) {
  static const RivuletGpuLibrary libraries[] = {{"cuBLASLt", "the emulated device has kernels of our own alone"}};
  *count = std::size(libraries);
  return libraries;
}

const char* SumMissing() {
  const Lock lock(BackendMutex());
  return TheState().settings.sums ? "" : "the emulated back end was told to add nothing";
}

int CountedSumAdd(void* sum, void* const* streams, void* const* numbers, size_t count, int32_t bytes) {
  const int code = SumAdd(sum, streams, numbers, count, bytes);
  const Lock lock(BackendMutex());
  if (code == kDone) ++TheState().counts.sums;
  return code;
}

}  // namespace

int Launch(void* stream, const char* name, uint32_t blocks_x, uint32_t blocks_y, uint32_t blocks_z, uint32_t threads,
           std::function<void()> body) {
  const LaunchShape shape{blocks_x, blocks_y, blocks_z, threads};
  const Lock lock(BackendMutex());
  ++TheState().counts.calls;
  if (std::string wrong = WrongShape(shape); !wrong.empty()) {
    LastFailure() = std::move(wrong);
    return kFailed;
  }
  Stream& in = *static_cast<Stream*>(stream);
  return in.Put(Recorded(in, RIVULET_GPU_ACTIVITY_KERNEL, name, 0, [shape, body = std::move(body)] {
    State& state = TheState();
    ++state.counts.launches;
    std::string failure =
        state.settings.launches_until_failure-- == 0 ? "a failure that was asked for" : RunBlocks(shape, body);
    if (failure.empty()) return static_cast<int>(kDone);
    LastFailure() = std::move(failure);
    return static_cast<int>(kFailed);
  }));
}

}  // namespace emulated

const RivuletGpuApi& EmulatedBackend() {
  using namespace emulated;
  static const std::vector<RivuletGpuKernel> kernels = KernelList::All();
  static const RivuletGpuApi api = {
      .abi = RIVULET_GPU_ABI,
      .backend = "emulated",
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
      .activity_missing = ActivityMissing,
      .activity_start = ActivityStart,
      .activity_stop = ActivityStop,
      .activity_clock = ActivityClock,
      .activity_label = ActivityLabel,
      .libraries = Libraries,
      .sum_missing = SumMissing,
      .sum_create = SumCreate,
      .sum_destroy = SumDestroy,
      .sum_add = CountedSumAdd,
      .kernels = kernels.data(),
      .kernel_count = kernels.size(),
  };
  return api;
}

void SetEmulatedSettings(const EmulatedSettings& settings) {
  const emulated::Lock lock(emulated::BackendMutex());
  emulated::TheState().settings = settings;
}

EmulatedCounts CountEmulated() {
  const emulated::Lock lock(emulated::BackendMutex());
  return emulated::TheState().counts;
}

}  // namespace rivulet::gpu
