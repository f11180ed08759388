// Compilation of a graph to a program: the part that a signature needs with all shapes known
// (program/concrete_graph.h), the passes over it (optimize.h), kernel binding and memory planning (program/lowering.h).
#pragma once

#include <memory>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/program/program.h"

namespace rivulet {

struct OptimizedGraph;  // engine/compile/optimize.h

// NOT_FOUND: a feed, fetch, target or variable that the graph or the signature lacks. INVALID_ARGUMENT: a shape that
// does not follow from the feeds, or clashes. UNIMPLEMENTED: no kernel. RESOURCE_EXHAUSTED: a tensor beyond 2^40
// elements, or more memory than PassOptions::memory_budget_bytes. NOT_FOUND, INVALID_ARGUMENT: a pass to leave out
// that is none, or cannot be.
// `made_of` (optional) receives the graph that the program was made of, and what the passes did.
StatusOr<std::shared_ptr<const Program>> CompileProgram(const Graph& graph, const Signature& signature,
                                                        const CompileOptions& options = {},
                                                        OptimizedGraph* made_of = nullptr);

}  // namespace rivulet
