// Device kernels. They are registered and prepared like host kernels (engine/program/kernel.h, Device::kCuda). A call
// is put into a stream, and computes several lanes at once: clients that train in step, each with its weights.
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

// Memory of lane 0, and how far the next lane's lies behind it in bytes; 0: all lanes read this.
struct GpuOperand {
  std::byte* data = nullptr;
  size_t lane_stride = 0;
};

// Which lanes a call is for.
struct GpuLanes {
  int32_t count = 1;             // the grid's depth
  const int32_t* ids = nullptr;  // `count` numbers of lanes, in device memory; null: 0 to count - 1
};

// What is drawn with, one a lane, in device memory: by the lane's number.
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
  GpuOperand scratch;                     // Prepared::scratch_bytes a lane
  GpuDraws draws;                         // for random ops
  // Inputs are floats that were 16 bits wide: a product may take them in a type that has no more bits behind the point,
  // and its bits are the same but for the order of sums.
  bool narrow_factors = false;
};

class GpuKernel : public Kernel {
 public:
  // Puts the work into the stream, and allocates nothing.
  virtual Status Launch(const GpuContext& context) const = 0;
  // A program of the host was given this kernel: never, lowering sees to it.
  Status Run(const KernelContext& context) const final;
};

}  // namespace rivulet
