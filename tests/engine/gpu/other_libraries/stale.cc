// A library of another version.
#include "engine/gpu/gpu_api.h"

extern "C" const RivuletGpuApi* rivulet_gpu_api() {
  static const RivuletGpuApi api = {.abi = RIVULET_GPU_ABI + 1};
  return &api;
}
