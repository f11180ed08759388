#include "engine/gpu/cuda/cupti_records.h"

#include <dlfcn.h>

#include <string>

#ifdef RIVULET_CUPTI
#include <cupti.h>

#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <vector>
#endif

namespace rivulet::gpu {

#ifndef RIVULET_CUPTI

const char* CuptiMissing() {
  return "the library was built without CUPTI's headers; install CUDA's cupti and build it again";
}
int CuptiStart() { return RIVULET_GPU_NOT_THERE; }
int CuptiStop(void*, RivuletGpuActivityTaker) { return RIVULET_GPU_NOT_THERE; }
int CuptiClock(int64_t*) { return RIVULET_GPU_NOT_THERE; }
int CuptiLabel(uint64_t) { return 0; }
const char* CuptiErrorText(int) { return nullptr; }

#else

namespace {

constexpr int kFirstError = 100'000;  // beyond all of the runtime's
constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_RUNTIME,
                                         CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION};

// Its functions, found in the library when it is opened.
struct Cupti {
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiActivityPushExternalCorrelationId) push = nullptr;
  decltype(&cuptiActivityPopExternalCorrelationId) pop = nullptr;
  decltype(&cuptiGetTimestamp) timestamp = nullptr;
  decltype(&cuptiGetResultString) result_string = nullptr;
  std::string missing;
};

void* OpenCupti() {
  // Its folder is not among those that the loader looks into, where the toolkit's own are.
  for (const char* name : {"libcupti.so." RIVULET_CUPTI, "libcupti.so", "/usr/local/cuda/lib64/libcupti.so",
                           "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so"}) {
    if (void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL); library != nullptr) return library;
  }
  return nullptr;
}

const Cupti& TheCupti() {
  static const Cupti cupti = [] {
    Cupti found;
    void* library = OpenCupti();
    if (library == nullptr) {
      found.missing = std::string("CUPTI cannot be opened (") + ::dlerror() + "); install CUDA's cupti";
      return found;
    }
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)> >(::dlsym(library, name));
      if (function == nullptr)
        found.missing = std::string("CUPTI has no ") + name + "; install that of CUDA " RIVULET_CUPTI;
    };
    find(found.register_callbacks, "cuptiActivityRegisterCallbacks");
    find(found.enable, "cuptiActivityEnable");
    find(found.disable, "cuptiActivityDisable");
    find(found.flush, "cuptiActivityFlushAll");
    find(found.next_record, "cuptiActivityGetNextRecord");
    find(found.push, "cuptiActivityPushExternalCorrelationId");
    find(found.pop, "cuptiActivityPopExternalCorrelationId");
    find(found.timestamp, "cuptiGetTimestamp");
    find(found.result_string, "cuptiGetResultString");
    return found;
  }();
  return cupti;
}

int Told(CUptiResult result) { return result == CUPTI_SUCCESS ? 0 : kFirstError + static_cast<int>(result); }

struct Record {
  RivuletGpuActivity activity;
  std::string name;
  uint32_t correlation;
};

// Records delivered by CUPTI's own threads so far.
struct Brought {
  std::mutex mutex;
  std::vector<Record> records;
  std::unordered_map<uint32_t, uint64_t> labels;  // by correlation
};
Brought& TheBrought() {
  static Brought* brought = new Brought;  // CUPTI may deliver a buffer during static destruction
  return *brought;
}

template <typename Activity>
Record RecordOf(RivuletGpuActivityKind kind, const Activity& of) {
  Record record{};
  record.activity.kind = kind;
  record.activity.device = static_cast<int32_t>(of.deviceId);
  record.activity.stream = of.streamId;
  record.activity.begin = static_cast<int64_t>(of.start);
  record.activity.end = static_cast<int64_t>(of.end);
  record.correlation = of.correlationId;
  return record;
}

const char* NameOfCopy(uint8_t kind) {
  return kind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD   ? "copy to the device"
         : kind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH ? "copy to the host"
                                                   : "copy";
}

void Take(const CUpti_Activity& activity, Brought& brought) {
  switch (activity.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel10&>(activity);
      brought.records.push_back(RecordOf(RIVULET_GPU_ACTIVITY_KERNEL, kernel));
      brought.records.back().name = kernel.name == nullptr ? "" : kernel.name;
      return;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy6&>(activity);
      brought.records.push_back(RecordOf(RIVULET_GPU_ACTIVITY_COPY, copy));
      brought.records.back().name = NameOfCopy(copy.copyKind);
      brought.records.back().activity.bytes = copy.bytes;
      return;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& fill = reinterpret_cast<const CUpti_ActivityMemset4&>(activity);
      brought.records.push_back(RecordOf(RIVULET_GPU_ACTIVITY_FILL, fill));
      brought.records.back().name = "fill";
      brought.records.back().activity.bytes = fill.bytes;
      return;
    }
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto& label = reinterpret_cast<const CUpti_ActivityExternalCorrelation&>(activity);
      if (label.externalKind == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0)
        brought.labels[label.correlationId] = label.externalId;
      return;
    }
    default:
      return;  // calls of the runtime, which are there for their correlations alone
  }
}

void CUPTIAPI Requested(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;  // as many as fit
}

void CUPTIAPI Completed(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  Brought& brought = TheBrought();
  {
    const std::lock_guard<std::mutex> lock(brought.mutex);
    CUpti_Activity* activity = nullptr;
    while (valid > 0 && TheCupti().next_record(buffer, valid, &activity) == CUPTI_SUCCESS) Take(*activity, brought);
  }
  std::free(buffer);
}

// Per thread: whether a label is on CUPTI's stack.
bool& Labelled() {
  thread_local bool labelled = false;
  return labelled;
}

}  // namespace

const char* CuptiMissing() { return TheCupti().missing.c_str(); }

int CuptiStart() {
  const Cupti& cupti = TheCupti();
  if (!cupti.missing.empty()) return RIVULET_GPU_NOT_THERE;
  if (const int code = Told(cupti.register_callbacks(Requested, Completed)); code != 0) return code;
  for (const CUpti_ActivityKind kind : kKinds) {
    if (const int code = Told(cupti.enable(kind)); code != 0) return code;
  }
  Brought& brought = TheBrought();
  const std::lock_guard<std::mutex> lock(brought.mutex);
  brought.records.clear();
  brought.labels.clear();
  return 0;
}

int CuptiStop(void* taker, RivuletGpuActivityTaker take) {
  const Cupti& cupti = TheCupti();
  if (!cupti.missing.empty()) return RIVULET_GPU_NOT_THERE;
  // No work is running, so records flushed from partly filled buffers are complete.
  const int flushed = Told(cupti.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  for (const CUpti_ActivityKind kind : kKinds) cupti.disable(kind);
  Brought& brought = TheBrought();
  const std::lock_guard<std::mutex> lock(brought.mutex);
  for (Record& record : brought.records) {
    if (const auto label = brought.labels.find(record.correlation); label != brought.labels.end())
      record.activity.label = label->second;
    record.activity.name = record.name.c_str();
    take(taker, &record.activity);
  }
  brought.records.clear();
  brought.labels.clear();
  return flushed;
}

int CuptiClock(int64_t* nanoseconds) {
  const Cupti& cupti = TheCupti();
  if (!cupti.missing.empty()) return RIVULET_GPU_NOT_THERE;
  uint64_t now = 0;
  const int code = Told(cupti.timestamp(&now));
  *nanoseconds = static_cast<int64_t>(now);
  return code;
}

int CuptiLabel(uint64_t label) {
  const Cupti& cupti = TheCupti();
  if (!cupti.missing.empty()) return 0;
  if (Labelled()) {
    uint64_t last = 0;
    cupti.pop(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last);
    Labelled() = false;
  }
  if (label == 0) return 0;
  const int code = Told(cupti.push(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, label));
  Labelled() = code == 0;
  return code;
}

const char* CuptiErrorText(int error) {
  if (error < kFirstError) return nullptr;
  const char* text = nullptr;
  TheCupti().result_string(static_cast<CUptiResult>(error - kFirstError), &text);
  return text;
}

#endif

}  // namespace rivulet::gpu
