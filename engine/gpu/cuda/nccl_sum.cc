#include "engine/gpu/cuda/nccl_sum.h"

#include <string>

#include "engine/gpu/gpu_api.h"

#ifdef RIVULET_NCCL
#include <dlfcn.h>
#include <nccl.h>

#include <type_traits>
#include <vector>
#endif

namespace rivulet::gpu {

#ifndef RIVULET_NCCL

const char* NcclMissing() { return "the library was built without NCCL's headers; install NCCL and build it again"; }
int NcclSumCreate(const int32_t*, int32_t, void**) { return RIVULET_GPU_NOT_THERE; }
int NcclSumDestroy(void*) { return RIVULET_GPU_NOT_THERE; }
int NcclSumAdd(void*, void* const*, void* const*, size_t, int32_t) { return RIVULET_GPU_NOT_THERE; }
const char* NcclErrorText(int) { return nullptr; }

#else

namespace {

// Beyond all of the runtime's, and after CUPTI's.
constexpr int kFirstError = 200'000;
constexpr char kLibrary[] = "libnccl.so.2";

// Its functions, found in the library when it is opened.
struct Nccl {
  decltype(&ncclCommInitAll) init_all = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclReduce) reduce = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  std::string missing;
};

const Nccl& TheNccl() {
  static const Nccl nccl = [] {
    Nccl found;
    void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      found.missing = std::string("NCCL cannot be opened (") + ::dlerror() + "); install NCCL 2";
      return found;
    }
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)> >(::dlsym(library, name));
      if (function == nullptr) found.missing = std::string("NCCL has no ") + name + "; install NCCL 2";
    };
    find(found.init_all, "ncclCommInitAll");
    find(found.destroy, "ncclCommDestroy");
    find(found.group_start, "ncclGroupStart");
    find(found.group_end, "ncclGroupEnd");
    find(found.reduce, "ncclReduce");
    find(found.error_string, "ncclGetErrorString");
    return found;
  }();
  return nccl;
}

int Told(ncclResult_t result) { return result == ncclSuccess ? 0 : kFirstError + static_cast<int>(result); }

using Communicators = std::vector<ncclComm_t>;

}  // namespace

const char* NcclMissing() { return TheNccl().missing.c_str(); }

int NcclSumCreate(const int32_t* devices, int32_t count, void** sum) {
  if (!TheNccl().missing.empty()) return RIVULET_GPU_NOT_THERE;
  const std::vector<int> numbers(devices, devices + count);
  Communicators communicators(numbers.size());
  if (const int code = Told(TheNccl().init_all(communicators.data(), count, numbers.data())); code != 0) return code;
  *sum = new Communicators(std::move(communicators));
  return 0;
}

int NcclSumDestroy(void* sum) {
  auto* const communicators = static_cast<Communicators*>(sum);
  int first = 0;
  for (const ncclComm_t communicator : *communicators) {
    const int code = Told(TheNccl().destroy(communicator));
    if (first == 0) first = code;
  }
  delete communicators;
  return first;
}

// Unsigned, so that wrap-around is defined.
int NcclSumAdd(void* sum, void* const* streams, void* const* numbers, size_t count, int32_t bytes) {
  const Nccl& nccl = TheNccl();
  const Communicators& communicators = *static_cast<Communicators*>(sum);
  const ncclDataType_t type = bytes == 8 ? ncclUint64 : ncclUint32;
  if (const int code = Told(nccl.group_start()); code != 0) return code;
  int first = 0;
  for (size_t device = 0; device < communicators.size() && first == 0; ++device) {
    first = Told(nccl.reduce(numbers[device], numbers[device], count, type, ncclSum, 0, communicators[device],
                             static_cast<cudaStream_t>(streams[device])));
  }
  const int ended = Told(nccl.group_end());  // always: an open group would include later calls
  return first != 0 ? first : ended;
}

const char* NcclErrorText(int error) {
  if (error < kFirstError) return nullptr;
  return TheNccl().error_string(static_cast<ncclResult_t>(error - kFirstError));
}

#endif

}  // namespace rivulet::gpu
