// Optional capabilities of kernels for programs that run several lanes at once (engine/program/lanes.h). A kernel
// without them runs once a lane, or its program in one lane.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/program/kernel.h"

namespace rivulet {

// A kernel whose rows are independent: for example a product with weights that all lanes share.
class LaneKernel {
 public:
  virtual ~LaneKernel() = default;
  // Returns a kernel whose single call computes the calls of all lanes, with the same bits: inputs named in `differs`
  // are stored consecutively by lane, and so are the outputs; the other inputs are shared. It needs this kernel's
  // scratch. Null: not supported for these inputs.
  virtual std::unique_ptr<const Kernel> ForLanes(int64_t lanes, const std::vector<bool>& differs) const = 0;
};

// A kernel that computes all of a float32 variable from memory elsewhere (Kernel::FromElsewhere), and can compute any
// part separately. So an aggregation that consumes updates need not store them.
class PartKernel {
 public:
  virtual ~PartKernel() = default;
  // Elements; parts start and end at multiples. Several units in one call are cheaper than separate ones.
  virtual int64_t part_unit() const = 0;
  // Computes `count` elements, from `first` on, of the result of Run in variables[0], and writes them to `to`, with the
  // same bits. The context is that of Run, without the variable.
  virtual void RunPart(const KernelContext& context, int64_t first, int64_t count, float* to) const = 0;
};

}  // namespace rivulet
