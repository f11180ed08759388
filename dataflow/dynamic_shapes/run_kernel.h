// Runs an op's own kernel, as a program would, once the sizes of its outputs are known.
#pragma once

#include <vector>

#include "dataflow/resources/async_op.h"

namespace rivulet {

// Of `node`, which is context.node or one like it, with context.inputs as its inputs; `outputs` have their types and
// shapes and receive the values.
Status RunKernelOf(const AsyncContext& context, const Node& node, std::vector<Tensor>& outputs);

}  // namespace rivulet
