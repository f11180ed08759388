// Mutable view of a foreign graph with version-1 control flow, edited in place while that is raised.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/op.h"
#include "proto/graph/graph.pb.h"

namespace rivulet {

// Frames within frames, and bodies within bodies: more than anybody writes. Bodies are raised by recursion, so their
// depth must be bounded before the stack is.
inline constexpr int kDeepestControlFlow = 32;

bool IsControlFlow(std::string_view op);
// One that sends its input one of several ways: Switch by a bool, _SwitchN by the number of a branch.
inline bool IsSwitch(std::string_view op) { return op == "Switch" || op == "_SwitchN"; }
std::string DescribeMessage(const proto::NodeDef& node);

// An input as a node names it.
struct NodeRef {
  std::string node;
  int port = 0;
  bool control = false;
  auto operator<=>(const NodeRef&) const = default;
  std::string ToString() const { return control ? "^" + node : port == 0 ? node : fmt::format("{}:{}", node, port); }
};
StatusOr<NodeRef> ParseNodeRef(const std::string& text);

// Attributes as far as the types of the outputs need them.
StatusOr<AttrMap> TypeAttributes(const proto::NodeDef& node, const OpDef& op);
void SetTypes(proto::NodeDef& node, const std::string& attr, const std::vector<DType>& types);

// The nodes of a graph by name; new ones join at the end, and taken ones leave at last.
// The message is changed in place, by name: what is raised runs before anything is verified or built, and a graph of
// version 1 cannot be built from nodes first, because its loops are cycles.
class ControlFlowNodes {
 public:
  // `graph` must outlive it, and is added to through it alone.
  explicit ControlFlowNodes(proto::GraphDef& graph);

  int Find(const std::string& name) const;  // -1: there is none
  int size() const { return graph_.node_size(); }
  proto::NodeDef& at(int i) { return *graph_.mutable_node(i); }
  const proto::NodeDef& at(int i) const { return graph_.node(i); }
  // NOT_FOUND: one is not in the graph.
  StatusOr<std::vector<NodeRef>> Inputs(int i) const;
  // Under this name or one that begins with it.
  proto::NodeDef& Add(const std::string& wanted, const std::string& op);
  StatusOr<DType> TypeOf(const NodeRef& ref) const;
  // Each node behind its inputs. UNIMPLEMENTED or INVALID_ARGUMENT: there is a cycle.
  StatusOr<std::vector<int>> Order() const;
  // Each loop and each condition walks over the graph: what they cost together is bounded. RESOURCE_EXHAUSTED.
  Status CheckCost(size_t walks, std::string_view what) const;

 private:
  proto::GraphDef& graph_;
  std::unordered_map<std::string, int> index_;
};

}  // namespace rivulet
