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

// What a body takes from the graph around it: its arguments beyond the first.
struct Captures {
  std::vector<NodeRef> sources;
  std::set<std::string> controls;  // what the node that runs the body waits for
  int Add(const NodeRef& source);
};

// A body in the making: nodes whose inputs "%a<i>" are arguments and "%c<i>" captures, and results likewise.
// The two kinds of names can be in no graph, as "%" is in no valid name.
struct ControlFlowBody {
  proto::GraphDef graph;
  std::vector<std::string> results;
};
std::string ArgumentRef(int i);
std::string CaptureRef(int i);

// Which part of a graph a body is made of.
struct BodyRegion {
  std::function<bool(int node)> inside;
  // What the body calls an input that comes from elsewhere; "" of one that is a node of the body.
  std::function<StatusOr<std::string>(const NodeRef& input)> capture;
  // Nodes that have a value at one output alone: at the one that `capture` names.
  std::function<bool(int node)> is_boundary;
};

class ControlFlowBodies {
 public:
  // Of bodies that are `depth` deep in others. `nodes` and `library` must outlive it.
  ControlFlowBodies(ControlFlowNodes& nodes, proto::FunctionDefLibrary& library, int depth)
      : nodes_(nodes), library_(library), depth_(depth) {}

  // What `roots` need, up to where the region's `capture` gives a name for an input. Control inputs on boundaries mean
  // nothing in a body: it runs when they have.
  StatusOr<ControlFlowBody> Extract(const std::vector<NodeRef>& roots, const BodyRegion& region, Captures& captures);
  // Raises what is in the body, and writes it as a FunctionDef, whose name it gives: `wanted` or one that begins with
  // it. The first `own` of `types` are arguments "%a…".
  StatusOr<std::string> AddFunction(const std::string& wanted, ControlFlowBody& body, const std::vector<DType>& types,
                                    int own, const std::vector<DType>& result_types);
  // Whether a function that was added has effects.
  bool is_stateful(const std::string& function) const { return stateful_.contains(function); }

 private:
  std::string UnusedName(std::string wanted) const;
  // `node` is among the controls of the captures, or stands for those that are.
  Status WaitFor(int node, Captures& captures);

  ControlFlowNodes& nodes_;
  proto::FunctionDefLibrary& library_;
  int depth_;
  std::set<std::string> stateful_;  // functions
};

}  // namespace rivulet
