// The run of a cut call (cut_call.h): one execution for each function, on the calling thread.
#pragma once

#include <vector>

#include "dataflow/session/cut_call.h"
#include "dataflow/session/execution.h"

namespace rivulet {

// `inputs`: those of the node that are no handles; `environment`: of the run around it. The results that are no
// handles, in order. Draws are those of a program that runs the function.
StatusOr<std::vector<Tensor>> RunCutCall(const CutCall& call, const Node& node, std::vector<Tensor> inputs,
                                         const ExecutionEnvironment& environment);

}  // namespace rivulet
