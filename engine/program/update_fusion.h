// Fusion of optimiser updates into the kernels that compute the gradients. A weight's gradient is used in registers, or
// in the nearest cache by momentum, Adam and similar, and is neither written to memory nor read again. Exact: the bits
// are those of the separate update.
#pragma once

#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/program/program.h"
#include "engine/program/storage.h"

namespace rivulet {

// For each ResourceApplyGradientDescent whose delta is a read of a transient variable (VariableBinding::transient):
// every kernel that writes a part of that variable, and nobody else reads that part, and that offers
// FusedGradientDescent, takes over its part of the update, where nothing touches that part of the updated variable in
// between. What is left of the update becomes one step per remaining stretch. A delta that lies in the arena and that
// nobody else uses is taken over whole in the same way.
// So it is, unless updates stay `apart`, where an optimiser with slots (engine/program/part_update.h) and a large
// gradient whose kernel makes it by parts meet: part after part is made and used, and the gradient is never whole in
// memory. A rate that is computed, as a schedule's is, is computed first of all where what it depends on allows it and
// updates do not stay `apart`; what it cannot be moved before keeps its update. Then, unless updates stay `apart`, a
// dense layer's input gradient joins the kernel that updates the layer's weights (Kernel::WithInputGradient), where
// nobody uses it in between: both read the weights, once instead of twice. `steps` are in order, after
// ResolveVariableHazards.
Status FuseGradientDescent(std::span<const VariableBinding> variables, const KernelPolicy& policy, bool apart,
                           std::vector<Storage>& storages, std::vector<Step>& steps);

}  // namespace rivulet
