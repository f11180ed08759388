// Fusion of optimiser updates into the kernels that compute the gradients. A weight's gradient is used in registers, or
// for momentum, Adam and similar in the nearest cache, and is neither written to memory nor read again. Exact: the bits
// are those of the separate update.
#pragma once

#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/program/program.h"
#include "engine/program/storage.h"

namespace rivulet {

// For each ResourceApplyGradientDescent whose delta is a read of a transient variable
// (VariableBinding::transient): every kernel that writes a part of that variable and offers
// FusedGradientDescent performs its part of the update. Conditions: that part has no other readers, and
// no step in between accesses the same part of the updated variable. The rest of the update becomes one
// step per remaining range. A delta in the arena without other users is fused in the same way as a whole.
// Unless `apart` is set, the same happens for an optimiser with slots (engine/program/part_update.h) and
// a large gradient whose kernel computes it by parts: each part is computed and used, and the complete
// gradient never exists in memory. A computed rate, as from a schedule, is computed first of all if its
// inputs allow it and `apart` is not set; otherwise its update stays separate. Then, unless `apart` is
// set, a dense layer's input gradient joins the kernel that updates the layer's weights
// (Kernel::WithInputGradient), if it is not used in between: both read the weights, which then happens
// once instead of twice. `steps` are in order, after ResolveVariableHazards.
Status FuseGradientDescent(std::span<const VariableBinding> variables, const KernelPolicy& policy, bool apart,
                           std::vector<Storage>& storages, std::vector<Step>& steps);

}  // namespace rivulet
