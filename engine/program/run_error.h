// Explanation of a failed kernel call, with its inputs.
#pragma once

#include "engine/base/status.h"
#include "engine/program/kernel.h"
#include "engine/program/program.h"

namespace rivulet {

// The kernel's error preceded by op, node and source line, and followed by names, types
// and shapes of the inputs, with the first values of inputs that were not overwritten:
// "Gather 'rows' (model.cc:9): index 12 … (inputs: 'table' float32[10,4], 'index'
// int32[3] = [1, 12, 3])". For CANCELLED and DEADLINE_EXCEEDED inputs are omitted.
Status ExplainRunError(const Instruction& call, const KernelContext& context, const Status& error);

}  // namespace rivulet
