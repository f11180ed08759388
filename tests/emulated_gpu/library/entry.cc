// librivulet_gpu_emulated.so: what tests put in the place of librivulet_cuda.so, by RIVULET_CUDA_LIBRARY.
#include "tests/emulated_gpu/emulated_backend.h"

extern "C" const RivuletGpuApi* rivulet_gpu_api() { return &rivulet::gpu::EmulatedBackend(); }
