// Device kernels. They are registered and prepared like host kernels (engine/program/kernel.h, Device::kCuda). A call
// is put into a stream, and computes several lanes at once: clients that train in step, each with its own weights.
//
// Lanes are the grid's third dimension. An operand of lane l is `lane_stride` bytes behind that of lane l - 1. A kernel
// computes every lane like a single one, element for element in the same order. So a lane's results do not depend on
// the number of lanes, and a client's bits are the same in a group of one and of sixty-four.
//
// Not every lane takes part in every step, because clients have different numbers of examples. `ids` lists the
// participating lanes, in device memory, and the grid is as deep as the list. Other lanes are neither read nor written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/philox.h"
#include "engine/gpu/gpu_device.h"
#include "engine/program/kernel.h"

namespace rivulet {

// Memory of lane 0, and the distance in bytes to the next lane's memory; 0: all lanes read the same.
struct GpuOperand {
  std::byte* data = nullptr;
  size_t lane_stride = 0;
};

// The lanes that a call computes.
struct GpuLanes {
  int32_t count = 1;             // depth of the grid
  const int32_t* ids = nullptr;  // `count` lane numbers, in device memory; null: 0 to count - 1
};

// Keys of random streams, one per lane, in device memory, by the lane's number.
struct GpuDraws {
  const StreamKey* streams = nullptr;
  const uint64_t* steps = nullptr;
};

struct GpuContext {
  GpuStream* stream = nullptr;
  GpuLanes lanes;
  std::span<const GpuOperand> inputs;  // in order of the node's non-resource inputs
  std::span<const GpuOperand> outputs;
  std::span<const GpuOperand> variables;  // the node's resource inputs, in order
  GpuOperand scratch;                     // Prepared::scratch_bytes per lane
  GpuDraws draws;                         // for random ops
  // Inputs are floats that were converted from 16 bits: a product may convert them to a type with as many fraction
  // bits, with equal results up to the order of sums.
  bool narrow_factors = false;
};

class GpuKernel : public Kernel {
 public:
  // Puts the work into the stream; allocates nothing.
  virtual Status Launch(const GpuContext& context) const = 0;
  // Never called: lowering gives device kernels to device programs only.
  Status Run(const KernelContext& context) const final;
};

}  // namespace rivulet
