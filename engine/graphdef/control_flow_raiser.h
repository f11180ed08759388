// Raises the loops and conditions of one graph, and recursively those of the resulting bodies.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/graphdef/control_flow_bodies.h"
#include "engine/graphdef/control_flow_nodes.h"
#include "proto/graph/graph.pb.h"

namespace rivulet {

// Replaces each outermost frame of the graph by a While; inner frames are in the resulting bodies and are raised there.
// Returns the names of removed nodes for pruning. A NoOp replaces each of them, so that indices stay valid.
StatusOr<std::set<std::string>> RaiseLoops(ControlFlowNodes& nodes, ControlFlowBodies& bodies);

using ControlFlowBranches = std::map<std::string, int>;  // predicate → branch of a node

// Replaces all Merges of each tf.cond of a graph without loops by one If. Returns the branches of nodes, by name; empty
// for a graph without conditions.
StatusOr<std::map<std::string, ControlFlowBranches>> RaiseConditions(ControlFlowNodes& nodes,
                                                                     ControlFlowBodies& bodies);

class ControlFlowRaiser {
 public:
  // `graph` is nested in `depth` others; functions are added to the library. Both must outlive this object.
  ControlFlowRaiser(proto::GraphDef& graph, proto::FunctionDefLibrary& library, int depth)
      : graph_(graph), nodes_(graph), bodies_(nodes_, library, depth), depth_(depth) {}

  // `results` are the required results of a body; null, for a graph: all nodes outside of branches and loops.
  Status Run(const std::vector<std::string>* results);
  ControlFlowBodies& bodies() { return bodies_; }

 private:
  // Removes the nodes of branches, even if they could still be reached by name: outside of their branch they would now
  // always run.
  Status Prune(const std::vector<std::string>* results, const std::set<std::string>& removed,
               const std::map<std::string, ControlFlowBranches>& branches);

  proto::GraphDef& graph_;
  ControlFlowNodes nodes_;
  ControlFlowBodies bodies_;
  int depth_;
};

}  // namespace rivulet
