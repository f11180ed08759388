// Common macros and helpers of device sources (*.cu). Each source is compiled twice: by nvcc for GPUs into
// librivulet_cuda.so, and by the host's compiler for the emulated device of the tests. The emulated device runs blocks
// one after the other and honours __syncthreads. So index arithmetic, lanes and masks are tested without a GPU.
//
// A kernel is one __global__ function of one plain struct, with fixed sizes of blocks and static __shared__ memory.
// __syncthreads() is its only synchronisation: no shuffles, no atomics on floats, no dynamic shared memory. The order
// of sums depends on the shape alone, so that every run gives the same bits.
//
//   struct ScaleArguments { LaneSpan<const float> x; LaneSpan<float> y; int64_t count; float factor; Lanes lanes; };
//
//   __global__ void Scale(ScaleArguments a) {
//     const int lane = a.lanes.Number(blockIdx.z);
//     for (int64_t i = FirstElement(); i < a.count; i += ElementStride()) a.y.of(lane)[i] = a.factor * a.x.of(lane)[i];
//   }
//   RIVULET_GPU_KERNEL("scale", ScaleArguments, Scale, GridOver(a.count, a.lanes));
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/gpu/kernel_list.h"
#include "engine/kernels/cuda/lane_span.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include RIVULET_CUDA_LANGUAGE  // the emulated device's definitions
#endif

namespace rivulet::gpu {

struct Grid {
  uint32_t x = 1, y = 1, z = 1;
  uint32_t threads = 256;
};

// A grid for kernels that walk over `count` elements of each lane: at most 4,096 blocks of 256 threads per lane.
inline Grid GridOver(int64_t count, const Lanes& lanes) {
  const int64_t blocks = (count + 255) / 256;
  return {static_cast<uint32_t>(blocks < 1      ? 1
                                : blocks > 4096 ? 4096
                                                : blocks),
          1, static_cast<uint32_t>(lanes.count), 256};
}

#ifdef __CUDACC__
template <typename Arguments>
int LaunchKernel(const char*, void (*kernel)(Arguments), const Grid& grid, const Arguments& arguments, void* stream) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return 0;
  kernel<<<dim3(grid.x, grid.y, grid.z), grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(arguments);
  return static_cast<int>(cudaGetLastError());
}
#else
template <typename Arguments>
int LaunchKernel(const char* name, void (*kernel)(Arguments), const Grid& grid, const Arguments& arguments,
                 void* stream) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return 0;
  return emulated::Launch(stream, name, grid.x, grid.y, grid.z, grid.threads,
                          [kernel, arguments] { kernel(arguments); });
}
#endif

__device__ inline int64_t FirstElement() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int64_t ElementStride() { return int64_t{gridDim.x} * blockDim.x; }

}  // namespace rivulet::gpu

// `grid` is an expression of `a`, the arguments.
#define RIVULET_GPU_KERNEL(name, Arguments, function, grid)                              \
  static const ::rivulet::gpu::KernelList rivulet_gpu_##function(                        \
      name, sizeof(Arguments), [](void* stream, const void* arguments) -> int {          \
        const Arguments& a = *static_cast<const Arguments*>(arguments);                  \
        return ::rivulet::gpu::LaunchKernel<Arguments>(name, function, grid, a, stream); \
      })
