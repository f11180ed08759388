// Runs an op's own kernel as a program would, once the sizes of its outputs are known.
#pragma once

#include <vector>

#include "dataflow/resources/async_op.h"

namespace rivulet {

// Runs the kernel of `node`, which is context.node or a similar one, with context.inputs as inputs. `outputs` have the
// right types and shapes and receive the values.
Status RunKernelOf(const AsyncContext& context, const Node& node, std::vector<Tensor>& outputs);

}  // namespace rivulet
