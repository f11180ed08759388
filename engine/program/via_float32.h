// Execution of bfloat16 and float16 nodes by the float kernel, for ops without a 16-bit kernel. Inputs are converted to
// float in scratch memory, the kernel runs there, and outputs are rounded to the nearest. So every op with a float
// kernel supports the 16-bit types; a dedicated kernel is only faster.
#pragma once

#include "engine/base/status.h"
#include "engine/program/kernel.h"

namespace rivulet {

// Prepares the kernel of `node`: the one registered for its types, or the float kernel between conversions, whose
// implementation then ends in " via float32". A kernel registered for a 16-bit type by name is used; one registered for
// every type is not. UNIMPLEMENTED as KernelRegistry::Find; errors of Prepare.
StatusOr<Prepared> PrepareKernel(const NodeView& node, const KernelPolicy& policy);

// Returns true if PrepareKernel finds a kernel for an op whose kernel-selecting attribute is `dtype`.
bool HasKernelFor(std::string_view op, Device device, DType dtype);

}  // namespace rivulet
