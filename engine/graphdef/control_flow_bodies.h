// Bodies of conditions and loops as functions of a graph's library, built while its control flow is raised.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/graphdef/control_flow_nodes.h"
#include "proto/graph/graph.pb.h"

namespace rivulet {

// Values that a body takes from the surrounding graph: its arguments beyond the first ones.
struct Captures {
  std::vector<NodeRef> sources;
  std::set<std::string> controls;  // nodes for which the node that runs the body waits
  int Add(const NodeRef& source);
};

// A body under construction: its nodes and results have inputs "%a<i>" for arguments and "%c<i>" for captures. Neither
// kind of name can be in a graph, as "%" is not allowed in names.
struct ControlFlowBody {
  proto::GraphDef graph;
  std::vector<std::string> results;
};
std::string ArgumentRef(int i);
std::string CaptureRef(int i);

// The part of a graph from which a body is made.
struct BodyRegion {
  std::function<bool(int node)> inside;
  // Returns the body's name for an input from outside; "" for a node of the body.
  std::function<StatusOr<std::string>(const NodeRef& input)> capture;
  // Nodes that have a value at only one output: the one that `capture` names.
  std::function<bool(int node)> is_boundary;
};

class ControlFlowBodies {
 public:
  // For bodies that are nested `depth` deep in others. `nodes` and `library` must outlive this object.
  ControlFlowBodies(ControlFlowNodes& nodes, proto::FunctionDefLibrary& library, int depth)
      : nodes_(nodes), library_(library), depth_(depth) {}

  // Extracts the nodes that `roots` need, up to inputs for which the region's `capture` gives a name. Control inputs
  // from boundaries are dropped: a body runs after them.
  StatusOr<ControlFlowBody> Extract(const std::vector<NodeRef>& roots, const BodyRegion& region, Captures& captures);
  // Raises control flow inside the body, and adds it to the library as a FunctionDef. Returns its name: `wanted` or one
  // that begins with it. The first `own` of `types` are arguments "%a…".
  StatusOr<std::string> AddFunction(const std::string& wanted, ControlFlowBody& body, const std::vector<DType>& types,
                                    int own, const std::vector<DType>& result_types);
  // Returns true if a function that was added has effects.
  bool is_stateful(const std::string& function) const { return stateful_.contains(function); }

 private:
  std::string UnusedName(std::string wanted) const;
  // Adds `node`, or the nodes that it stands for, to the controls of the captures.
  Status WaitFor(int node, Captures& captures);

  ControlFlowNodes& nodes_;
  proto::FunctionDefLibrary& library_;
  int depth_;
  std::set<std::string> stateful_;  // names of functions
};

}  // namespace rivulet
