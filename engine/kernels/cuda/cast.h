// Conversions of element types (cast.cu). Arguments are those of unary functions.
#pragma once

#include "engine/kernels/cuda/elementwise.h"

// All pairs of these types.
#define RIVULET_GPU_CAST_FROM(M, From) \
  M(From, float) M(From, double) M(From, int32_t) M(From, int64_t) M(From, uint8_t) M(From, bool)
#define RIVULET_GPU_CASTS(M)        \
  RIVULET_GPU_CAST_FROM(M, float)   \
  RIVULET_GPU_CAST_FROM(M, double)  \
  RIVULET_GPU_CAST_FROM(M, int32_t) \
  RIVULET_GPU_CAST_FROM(M, int64_t) \
  RIVULET_GPU_CAST_FROM(M, uint8_t) \
  RIVULET_GPU_CAST_FROM(M, bool)
