// List of the element types with kernels, for a switch over a type that is known when a kernel is prepared or run.
#pragma once

#include "engine/tensor/dtype.h"
#include "engine/tensor/float16.h"

// CASE(dtype, type) for each type: `case DType::dtype:` and the code for `type`.
#define RIVULET_EVERY_TYPE(CASE) \
  CASE(kFloat32, float)          \
  CASE(kFloat64, double)         \
  CASE(kBFloat16, bfloat16)      \
  CASE(kFloat16, float16)        \
  CASE(kInt8, int8_t)            \
  CASE(kInt16, int16_t)          \
  CASE(kInt32, int32_t)          \
  CASE(kInt64, int64_t)          \
  CASE(kUint8, uint8_t)          \
  CASE(kUint16, uint16_t)        \
  CASE(kUint32, uint32_t)        \
  CASE(kUint64, uint64_t)        \
  CASE(kBool, bool)
