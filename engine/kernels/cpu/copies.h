// Kernels that only move elements: transposes, slices, concatenations, padding, tiles. Each is a list of strided
// copies, planned when the kernel is prepared.
#pragma once

#include <vector>

#include "engine/kernels/cpu/strided.h"
#include "engine/program/kernel.h"
#include "engine/tensor/float16.h"

namespace rivulet {

struct StridedCopy {
  int input = 0;
  int output = 0;
  StridedWalk<2> walk;  // operand 0: the output, 1: the input
};

// Adds a copy of `dims` elements. `to` and `from` are strides per axis. Errors as MakeWalk.
Status AddCopy(std::vector<StridedCopy>& copies, int input, int output, std::span<const int64_t> dims,
               std::vector<int64_t> to, std::vector<int64_t> from, int64_t to_offset = 0, int64_t from_offset = 0);

// A kernel that makes the copies in order, after filling output 0 with zeros where `zero_first`, or with the scalar
// input `fill_input` where that is not negative.
StatusOr<Prepared> PrepareCopies(const NodeView& node, std::vector<StridedCopy> copies, bool zero_first = false,
                                 int fill_input = -1);

// f(Word()) for the unsigned integer of an element's size: one kernel for all types of that size.
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

// For kernels that move elements of any type, the 16-bit ones included.
#define RIVULET_KERNEL_OF_EVERY_SIZE(op, prepare)                 \
  RIVULET_KERNEL(op, Device::kCpu, void, prepare);                \
  RIVULET_KERNEL(op, Device::kCpu, ::rivulet::bfloat16, prepare); \
  RIVULET_KERNEL(op, Device::kCpu, ::rivulet::float16, prepare)

}  // namespace rivulet
