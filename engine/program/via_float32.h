// bfloat16 and float16 nodes whose op has no kernel for them run through the float kernel: inputs are converted to
// float in scratch memory, the kernel runs there, outputs are rounded to the nearest. So every op that has a kernel for
// float has one for the 16-bit types, anywhere; a kernel of their own is a matter of speed.
#pragma once

#include "engine/base/status.h"
#include "engine/program/kernel.h"

namespace rivulet {

// The kernel of `node`, prepared: the one registered for its types, or the float kernel between conversions, whose
// implementation then ends in " via float32". An op that registers a kernel for a 16-bit type by name is trusted with
// it; one registered for every type is not. UNIMPLEMENTED as KernelRegistry::Find; errors of Prepare.
StatusOr<Prepared> PrepareKernel(const NodeView& node, const KernelPolicy& policy);

// Whether PrepareKernel finds a kernel for an op whose attribute that chooses the kernel is `dtype`.
bool HasKernelFor(std::string_view op, Device device, DType dtype);

}  // namespace rivulet
