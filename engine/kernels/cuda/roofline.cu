// The device's peak rates as kernels of this kind can reach them: bytes by a copy, operations by multiply-adds in
// registers. The latter are explicitly fused (fmaf), which other files leave to the compiler.
#include "engine/kernels/cuda/device_code.h"
#include "engine/kernels/cuda/roofline.h"

namespace rivulet::gpu {
namespace {

__global__ void RooflineCopy(RooflineCopyArguments a) {
  const uint4* x = static_cast<const uint4*>(a.x);
  uint4* y = static_cast<uint4*>(a.y);
  for (int64_t i = FirstElement(); i < a.count; i += ElementStride()) y[i] = x[i];
}
RIVULET_GPU_KERNEL("roofline_copy", RooflineCopyArguments, RooflineCopy, GridOver(a.count, Lanes{1, nullptr}));

__global__ void RooflineMultiplyAdd(RooflineMultiplyAddArguments a) {
  float chains[kRooflineChains];
  for (int chain = 0; chain < kRooflineChains; ++chain) chains[chain] = static_cast<float>(threadIdx.x + chain);
  for (int round = 0; round < a.rounds; ++round) {
#pragma unroll
    for (int chain = 0; chain < kRooflineChains; ++chain) chains[chain] = fmaf(chains[chain], a.factor, a.summand);
  }
  float sum = 0;
  for (int chain = 0; chain < kRooflineChains; ++chain) sum += chains[chain];
  a.y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
RIVULET_GPU_KERNEL("roofline_multiply_add", RooflineMultiplyAddArguments, RooflineMultiplyAdd,
                   (Grid{static_cast<uint32_t>(a.blocks), 1, 1, kRooflineThreads}));

}  // namespace
}  // namespace rivulet::gpu
