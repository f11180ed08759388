// Unordered list of a library's device kernels. Each registers itself (RIVULET_GPU_KERNEL, engine/kernels/cuda), and
// the library's back end offers them. Nothing here depends on CUDA, so that the emulated device has the same list.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "engine/gpu/gpu_api.h"

namespace rivulet::gpu {

// One kernel, in static memory. The program aborts at its start if a name is registered twice.
struct KernelList {
  KernelList(const char* name, size_t argument_bytes, int (*launch)(void*, const void*))
      : kernel{name, argument_bytes, launch}, next(First()) {
    for (const KernelList* other = next; other != nullptr; other = other->next) {
      if (std::strcmp(other->kernel.name, name) != 0) continue;
      std::fprintf(stderr, "device kernel '%s' is registered twice; names are unique in a library\n", name);
      std::abort();
    }
    First() = this;
  }
  RivuletGpuKernel kernel;
  KernelList* next;

  static KernelList*& First() {
    static KernelList* first = nullptr;
    return first;
  }
  // Returns all kernels in the format of the back end's table.
  static std::vector<RivuletGpuKernel> All() {
    std::vector<RivuletGpuKernel> kernels;
    for (const KernelList* one = First(); one != nullptr; one = one->next) kernels.push_back(one->kernel);
    return kernels;
  }
};

}  // namespace rivulet::gpu
