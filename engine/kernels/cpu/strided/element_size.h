// Dispatch by element size, for kernels that move elements without interpreting them: one instance serves all types of
// a size.
#pragma once

#include <cstdint>

#include "engine/program/kernel.h"
#include "engine/tensor/float16.h"

namespace rivulet {

// Calls f(Word()) with the unsigned integer type of an element's size: one kernel for all types of that size.
template <typename F>
auto ForElementSize(DType dtype, F f) -> StatusOr<decltype(f(uint8_t()))> {
  switch (SizeOf(dtype)) {
    case 1:
      return f(uint8_t());
    case 2:
      return f(uint16_t());
    case 4:
      return f(uint32_t());
    case 8:
      return f(uint64_t());
    default:
      return Unimplemented("elements of type {} cannot be moved", Name(dtype));
  }
}

// For kernels that move elements of any type, including 16-bit types.
#define RIVULET_KERNEL_OF_EVERY_SIZE(op, prepare)                 \
  RIVULET_KERNEL(op, Device::kCpu, void, prepare);                \
  RIVULET_KERNEL(op, Device::kCpu, ::rivulet::bfloat16, prepare); \
  RIVULET_KERNEL(op, Device::kCpu, ::rivulet::float16, prepare)

}  // namespace rivulet
