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

// One execution of a pass: each row's nodes_after is the next row's nodes_before. A pass that found work again in a
// later round has several rows.
struct PassReport {
  std::string pass;
  size_t nodes_before = 0, nodes_after = 0;
  std::vector<std::string> rewrites;  // one line each, in order
};

struct OptimizedGraph {
  Graph graph;  // for the same signature; shapes are those of its feeds
  std::vector<PassReport> report;
};

// `concrete` is what the signature needs of the graph, shapes known and constants folded. Errors are those of
// CheckPassOptions; a graph that no pass may touch (one output of several is fed) comes back as it is.
StatusOr<OptimizedGraph> OptimizeGraph(const ConcreteGraph& concrete, const Signature& signature,
                                       const CompileOptions& options);

// The same from the start: errors of CompileProgram about the graph and the signature as well.
StatusOr<OptimizedGraph> OptimizeGraph(const Graph& graph, const Signature& signature, const CompileOptions& options);

}  // namespace rivulet
