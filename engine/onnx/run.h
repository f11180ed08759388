// One run of a foreign graph with bounded memory, for models and test cases from outside.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/program/kernel.h"

namespace rivulet::onnx {

struct RunLimits {
  size_t bytes = size_t{1} << 30;  // total of arena, constants and results
};

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// Runs the graph. `feeds` are by tensor name; `variables` hold the value of each variable that the fetches need.
// RESOURCE_EXHAUSTED: more memory than `limits` allow; others as CompileProgram and Instance::Run.
StatusOr<std::vector<Tensor>> RunOnce(const Graph& graph, const NamedTensors& feeds,
                                      const std::vector<std::string>& fetches, const NamedTensors& variables = {},
                                      const KernelPolicy& kernels = {}, const RunLimits& limits = {});

}  // namespace rivulet::onnx
