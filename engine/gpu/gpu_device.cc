#include "engine/gpu/gpu_device.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "engine/gpu/gpu_pool.h"

namespace rivulet {
namespace {

// Computed from the memory that is free on the device now.
StatusOr<size_t> MemoryLimit(const GpuOptions& options, size_t free_bytes) {
  const double fraction = options.per_process_gpu_memory_fraction;
  if (!(fraction > 0 && fraction <= 1)) {
    return InvalidArgument("per_process_gpu_memory_fraction = {}: it is a part of the device's memory, in (0, 1]",
                           fraction);
  }
  const auto part = static_cast<size_t>(fraction * static_cast<double>(free_bytes));
  return options.limit_bytes == 0 ? part : std::min(options.limit_bytes, part);
}

}  // namespace

StatusOr<std::shared_ptr<GpuDevice>> GpuDevice::Open(const RivuletGpuApi& api, int number, const GpuOptions& options) {
  const auto failed = [&](int code, std::string_view doing) {
    return FailedPrecondition("GPU {}: {}: {}", number, doing, api.error_text(code));
  };
  int32_t devices = 0;
  const char* why = "";
  if (const int code = api.count(&devices, &why); code != 0) return failed(code, "asking for devices");
  if (number < 0 || number >= devices) {
    if (devices == 0) return FailedPrecondition("there is no GPU {} here: {}", number, why);
    return FailedPrecondition("there is no GPU {} here: there are {}, numbered from 0 (CUDA_VISIBLE_DEVICES chooses)",
                              number, devices);
  }
  RivuletGpuProperties properties{};
  if (const int code = api.properties(number, &properties); code != 0) return failed(code, "asking what it is");
  RIVULET_ASSIGN_OR_RETURN(const size_t limit, MemoryLimit(options, properties.free_bytes));
  std::shared_ptr<GpuDevice> device(new GpuDevice(api, number, properties, limit, options.allow_tf32));
  GpuPool::Source source;
  // The pool lives in the device, which outlives it.
  source.take = [raw = device.get()](size_t bytes) -> StatusOr<std::byte*> {
    void* memory = nullptr;
    const int code = raw->api_.allocate(raw->number_, bytes, &memory);
    if (code == RIVULET_GPU_OUT_OF_MEMORY) return nullptr;
    RIVULET_RETURN_IF_ERROR(raw->Error(code, "taking memory"));
    return static_cast<std::byte*>(memory);
  };
  source.give_back = [raw = device.get()](std::byte* region) { raw->api_.release(raw->number_, region); };
  source.host_memory = properties.compute_major == 0;
  const MutexLock lock(device->mutex_);
  device->pool_ = std::make_unique<GpuPool>(std::move(source), limit, options.allow_growth);
  return device;
}

GpuDevice::GpuDevice(const RivuletGpuApi& api, int number, const RivuletGpuProperties& properties, size_t limit,
                     bool allows_tf32)
    : api_(api), number_(number), properties_(properties), limit_(limit), allows_tf32_(allows_tf32) {
  for (size_t i = 0; i < api.kernel_count; ++i) kernels_.emplace(api.kernels[i].name, &api.kernels[i]);
}

GpuDevice::~GpuDevice() = default;

Status GpuDevice::Error(int code, std::string_view doing) const {
  if (code == 0) return {};
  if (code == RIVULET_GPU_OUT_OF_MEMORY) {
    return ResourceExhausted("GPU {}: {}: no memory is left; another process may hold it", number_, doing);
  }
  return Internal("GPU {} ({}): {}: {}", number_, api_.backend, doing, api_.error_text(code));
}

StatusOr<GpuMemory> GpuDevice::Allocate(size_t bytes, std::string_view what) {
  GpuMemory memory;
  const MutexLock lock(mutex_);
  StatusOr<std::byte*> data = pool_->Allocate(bytes, what);
  if (!data.ok()) return Annotate(data.status(), fmt::format("GPU {}", number_));
  memory.data_ = *data;
  memory.size_ = bytes;
  memory.device_ = shared_from_this();
  return memory;
}

void GpuDevice::Release(std::byte* memory) {
  const MutexLock lock(mutex_);
  pool_->Release(memory);
}

StatusOr<PinnedMemory> GpuDevice::AllocatePinned(size_t bytes) {
  PinnedMemory memory;
  RIVULET_RETURN_IF_ERROR(Use());
  void* data = nullptr;
  RIVULET_RETURN_IF_ERROR(
      Error(api_.allocate_pinned(bytes, &data), fmt::format("taking {} bytes of the host's memory", bytes)));
  memory.data_ = static_cast<std::byte*>(data);
  memory.size_ = bytes;
  memory.device_ = shared_from_this();
  return memory;
}

StatusOr<std::unique_ptr<GpuStream>> GpuDevice::NewStream() {
  std::unique_ptr<GpuStream> stream(new GpuStream);
  RIVULET_RETURN_IF_ERROR(Error(api_.stream_create(number_, &stream->stream_), "making a stream"));
  stream->device_ = shared_from_this();
  return stream;
}

StatusOr<std::unique_ptr<GpuEvent>> GpuDevice::NewEvent() {
  std::unique_ptr<GpuEvent> event(new GpuEvent);
  RIVULET_RETURN_IF_ERROR(Error(api_.event_create(number_, &event->event_), "making an event"));
  event->device_ = shared_from_this();
  return event;
}

size_t GpuDevice::bytes_in_use() const {
  const MutexLock lock(mutex_);
  return pool_->in_use();
}

size_t GpuDevice::bytes_held() const {
  const MutexLock lock(mutex_);
  return pool_->held();
}

size_t GpuDevice::bytes_available() const { return limit_ - std::min(limit_, bytes_in_use()); }

GpuMemory::GpuMemory(GpuMemory&& other) noexcept { *this = std::move(other); }
GpuMemory& GpuMemory::operator=(GpuMemory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}
GpuMemory::~GpuMemory() {
  if (data_ != nullptr) device_->Release(data_);
}

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept { *this = std::move(other); }
PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}
PinnedMemory::~PinnedMemory() {
  if (data_ != nullptr) device_->api_.release_pinned(data_);
}

GpuEvent::~GpuEvent() {
  if (event_ != nullptr) device_->api_.event_destroy(event_);
}

StatusOr<double> GpuEvent::MillisecondsSince(const GpuEvent& from) const {
  float milliseconds = 0;
  if (device_->api_.event_milliseconds(from.event_, event_, &milliseconds) != 0) {
    return FailedPrecondition("GPU {}: the time between two events is known when both were recorded and waited for",
                              device_->number_);
  }
  return static_cast<double>(milliseconds);
}

GpuGraph::~GpuGraph() {
  if (graph_ != nullptr) device_->api_.graph_destroy(graph_);
}

GpuStream::~GpuStream() {
  if (stream_ == nullptr) return;
  if (capturing_) EndCapture().IgnoreError();
  // Arguments of the calls may be destroyed after this.
  device_->api_.stream_wait(stream_);
  device_->api_.stream_destroy(stream_);
}

Status GpuStream::Copy(void* to, const void* from, size_t bytes, RivuletGpuCopyKind kind) {
  if (bytes == 0) return {};
  RIVULET_RETURN_IF_ERROR(device_->Use());
  return device_->Error(device_->api_.copy(stream_, to, from, bytes, kind), "copying");
}
Status GpuStream::ToDevice(void* to, const void* from, size_t bytes) {
  return Copy(to, from, bytes, RIVULET_GPU_COPY_TO_DEVICE);
}
Status GpuStream::ToHost(void* to, const void* from, size_t bytes) {
  return Copy(to, from, bytes, RIVULET_GPU_COPY_TO_HOST);
}
Status GpuStream::OnDevice(void* to, const void* from, size_t bytes) {
  return Copy(to, from, bytes, RIVULET_GPU_COPY_ON_DEVICE);
}

Status GpuStream::Fill(void* to, int byte, size_t bytes) {
  if (bytes == 0) return {};
  RIVULET_RETURN_IF_ERROR(device_->Use());
  return device_->Error(device_->api_.fill(stream_, to, byte, bytes), "filling memory");
}

Status GpuStream::LaunchNamed(std::string_view kernel, const void* arguments, size_t bytes) {
  const auto found = device_->kernels_.find(kernel);
  if (found == device_->kernels_.end()) {
    return NotFound("the {} back end has no kernel '{}'; build the library and the program together",
                    device_->backend(), kernel);
  }
  if (found->second->argument_bytes != bytes) {
    return Internal(
        "kernel '{}' takes {} bytes of arguments and was given {}; build the library and the program together", kernel,
        found->second->argument_bytes, bytes);
  }
  RIVULET_RETURN_IF_ERROR(device_->Use());
  const int code = found->second->launch(stream_, arguments);
  if (code == RIVULET_GPU_NOT_THERE) {
    return NotFound("'{}' needs a library that is missing or has another version; 'rivulet doctor' lists libraries",
                    kernel);
  }
  return device_->Error(code, fmt::format("launching '{}'", kernel));
}

Status GpuStream::Label(uint64_t label) {
  return device_->Error(device_->api_.activity_label(label), "naming its work");
}

Status GpuStream::Wait() { return device_->Error(device_->api_.stream_wait(stream_), "waiting for its work"); }

Status GpuStream::Record(GpuEvent& event) {
  RIVULET_RETURN_IF_ERROR(device_->Use());
  return device_->Error(device_->api_.event_record(event.event_, stream_), "recording an event");
}

Status GpuStream::WaitFor(const GpuEvent& event) {
  RIVULET_RETURN_IF_ERROR(device_->Use());
  return device_->Error(device_->api_.stream_wait_event(stream_, event.event_), "waiting for an event");
}

Status GpuStream::BeginCapture() {
  RIVULET_RETURN_IF_ERROR(device_->Use());
  RIVULET_RETURN_IF_ERROR(device_->Error(device_->api_.capture_begin(stream_), "beginning a capture"));
  capturing_ = true;
  return {};
}

StatusOr<std::unique_ptr<GpuGraph>> GpuStream::EndCapture() {
  std::unique_ptr<GpuGraph> graph(new GpuGraph);
  capturing_ = false;
  RIVULET_RETURN_IF_ERROR(device_->Error(device_->api_.capture_end(stream_, &graph->graph_), "ending a capture"));
  graph->device_ = device_;
  return graph;
}

Status GpuStream::Launch(const GpuGraph& graph) {
  RIVULET_RETURN_IF_ERROR(device_->Use());
  return device_->Error(device_->api_.graph_launch(graph.graph_, stream_), "launching a graph");
}

}  // namespace rivulet
