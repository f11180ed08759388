// Compilation of a graph to a program: the part that a signature needs with all shapes known
// (program/concrete_graph.h), the passes over it (optimize.h), kernel binding and memory planning (program/lowering.h).
#pragma once

#include <memory>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/program/program.h"

namespace rivulet {

struct OptimizedGraph;  // engine/compile/optimize.h

// Compiles the graph for a signature. NOT_FOUND: the graph or signature lacks a feed, fetch, target, variable or named
// pass. INVALID_ARGUMENT: a shape clashes or does not follow from the feeds, or a pass to disable is mandatory.
// UNIMPLEMENTED: an op has no kernel. RESOURCE_EXHAUSTED: a tensor has more than 2^40 elements, or the program needs
// more memory than PassOptions::memory_budget_bytes.
// `made_of` (optional) receives the graph from which the program was made, and a report of the passes.
StatusOr<std::shared_ptr<const Program>> CompileProgram(const Graph& graph, const Signature& signature,
                                                        const CompileOptions& options = {},
                                                        OptimizedGraph* made_of = nullptr);

}  // namespace rivulet
