// Arguments of the kernels that measure a device (roofline.cu; engine/profile/gpu_roofline.h).
#pragma once

#include <cstdint>

namespace rivulet::gpu {

// "roofline_copy": y = x, in `count` pieces of 16 bytes.
struct RooflineCopyArguments {
  const void* x;
  void* y;
  int64_t count;
};

// "roofline_multiply_add": each of `blocks` · 256 threads keeps kRooflineChains numbers in registers, and does `rounds`
// multiply-adds on each. y gets one number per thread, so that the compiler cannot remove the work.
inline constexpr int kRooflineChains = 16, kRooflineThreads = 256;
struct RooflineMultiplyAddArguments {
  float* y;
  int32_t blocks;
  int32_t rounds;
  float factor, summand;
};

}  // namespace rivulet::gpu
