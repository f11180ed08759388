// Optional capabilities of kernels for programs that run several lanes at once (engine/program/lanes.h). A kernel
// without them runs once a lane, or its program in one lane.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/program/kernel.h"

namespace rivulet {

// A kernel whose rows do not know of each other: a product by weights that all lanes share, say.
class LaneKernel {
 public:
  virtual ~LaneKernel() = default;
  // One call of it does what a call a lane of this kernel does, with the same bits: those inputs that `differs` names
  // lie one behind the other, and so do the outputs; the other inputs are all lanes'. Takes the scratch of this kernel.
  // Null: not of these inputs.
  virtual std::unique_ptr<const Kernel> ForLanes(int64_t lanes, const std::vector<bool>& differs) const = 0;
};

// A kernel that makes all of a float32 variable of what lies elsewhere (Kernel::FromElsewhere), and can make any part
// of it by itself. So whoever takes updates in need not have them in memory.
class PartKernel {
 public:
  virtual ~PartKernel() = default;
  // Elements; parts begin and end at its multiples. Some units together are cheaper than each by itself.
  virtual int64_t part_unit() const = 0;
  // `count` elements from `first` on of what Run would leave in variables[0], to `to`, with the same bits. The context
  // is Run's, without the variable.
  virtual void RunPart(const KernelContext& context, int64_t first, int64_t count, float* to) const = 0;
};

}  // namespace rivulet
