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

// Each outermost frame of the graph becomes a While; inner ones are in the bodies that this makes, and are raised
// there. The names of nodes that are no more, for whoever prunes: a NoOp stands for each, so that indices hold.
StatusOr<std::set<std::string>> RaiseLoops(ControlFlowNodes& nodes, ControlFlowBodies& bodies);

using ControlFlowBranches = std::map<std::string, int>;  // predicate → the branch that a node is in

// All Merges of each tf.cond of a graph without loops become one If. The branches that nodes are in, by name; empty of
// a graph without conditions.
StatusOr<std::map<std::string, ControlFlowBranches>> RaiseConditions(ControlFlowNodes& nodes,
                                                                     ControlFlowBodies& bodies);

class ControlFlowRaiser {
 public:
  // `graph` is within `depth` others; functions join the library. Both must outlive it.
  ControlFlowRaiser(proto::GraphDef& graph, proto::FunctionDefLibrary& library, int depth)
      : graph_(graph), nodes_(graph), bodies_(nodes_, library, depth), depth_(depth) {}

  // `results` are what is wanted of a body; of a graph (null), everything that is not of a branch or a loop.
  Status Run(const std::vector<std::string>* results);
  ControlFlowBodies& bodies() { return bodies_; }

 private:
  // What was in a branch must go even if somebody could still reach it by name: outside of its branch it would now run
  // always.
  Status Prune(const std::vector<std::string>* results, const std::set<std::string>& removed,
               const std::map<std::string, ControlFlowBranches>& branches);

  proto::GraphDef& graph_;
  ControlFlowNodes nodes_;
  ControlFlowBodies bodies_;
  int depth_;
};

}  // namespace rivulet
