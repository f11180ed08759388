// The sequence of all passes over a graph. CompileProgram runs it before binding kernels; `rivulet graph` prints its
// steps.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/program/concrete_graph.h"
#include "engine/program/pass_options.h"
#include "engine/program/program.h"

namespace rivulet {

// One execution of a pass. Each row's nodes_after is the next row's nodes_before. A pass that changes the graph again
// in a later round has several rows.
struct PassReport {
  std::string pass;
  size_t nodes_before = 0, nodes_after = 0;
  std::vector<std::string> rewrites;  // one line each, in order
};

struct OptimizedGraph {
  Graph graph;  // for the same signature; shapes follow from its feeds
  std::vector<PassReport> report;
};

// Runs the passes. `concrete` is the part of the graph needed by the signature, with known shapes and folded constants.
// Errors are those of CheckPassOptions. If only some outputs of a node are fed, the graph is returned unchanged.
StatusOr<OptimizedGraph> OptimizeGraph(const ConcreteGraph& concrete, const Signature& signature,
                                       const CompileOptions& options);

// The same for a graph that is not concrete yet. Also has CompileProgram's errors about the graph and the signature.
StatusOr<OptimizedGraph> OptimizeGraph(const Graph& graph, const Signature& signature, const CompileOptions& options);

}  // namespace rivulet
