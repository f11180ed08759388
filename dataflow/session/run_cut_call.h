// The run of a cut call (cut_call.h): one execution per function call, on the calling thread.
#pragma once

#include <vector>

#include "dataflow/session/cut_call.h"
#include "dataflow/session/execution.h"

namespace rivulet {

// `inputs`: the node's inputs without handles; `environment`: of the surrounding run. Returns the results without
// handles, in order. Random draws equal those of a program that runs the function.
StatusOr<std::vector<Tensor>> RunCutCall(const CutCall& call, const Node& node, std::vector<Tensor> inputs,
                                         const ExecutionEnvironment& environment);

}  // namespace rivulet
