// Mutable view of a foreign graph with version-1 control flow. The graph is edited in place while that is raised.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/op.h"
#include "proto/graph/graph.pb.h"

namespace rivulet {

// Maximum nesting of frames and of bodies, more than real graphs have. Bodies are raised by recursion, so their depth
// must be bounded to protect the stack.
inline constexpr int kDeepestControlFlow = 32;

bool IsControlFlow(std::string_view op);
// Returns true for ops that send their input to one of several outputs: Switch by a bool, _SwitchN by a branch number.
inline bool IsSwitch(std::string_view op) { return op == "Switch" || op == "_SwitchN"; }
std::string DescribeMessage(const proto::NodeDef& node);

// An input, as named by a node.
struct NodeRef {
  std::string node;
  int port = 0;
  bool control = false;
  auto operator<=>(const NodeRef&) const = default;
  std::string ToString() const { return control ? "^" + node : port == 0 ? node : fmt::format("{}:{}", node, port); }
};
StatusOr<NodeRef> ParseNodeRef(const std::string& text);

// Returns the attributes that determine the types of the outputs.
StatusOr<AttrMap> TypeAttributes(const proto::NodeDef& node, const OpDef& op);
void SetTypes(proto::NodeDef& node, const std::string& attr, const std::vector<DType>& types);

// The nodes of a graph by name. New nodes are appended; removed ones are deleted at the end. The message is changed in
// place, by name: raising runs before anything is verified or built. A version-1 graph cannot be built first, because
// its loops are cycles.
class ControlFlowNodes {
 public:
  // `graph` must outlive this object, which alone may add nodes to it.
  explicit ControlFlowNodes(proto::GraphDef& graph);

  int Find(const std::string& name) const;  // -1: there is none
  int size() const { return graph_.node_size(); }
  proto::NodeDef& at(int i) { return *graph_.mutable_node(i); }
  const proto::NodeDef& at(int i) const { return graph_.node(i); }
  // NOT_FOUND: an input is not in the graph.
  StatusOr<std::vector<NodeRef>> Inputs(int i) const;
  // Adds a node named `wanted`, or with a name that begins with it.
  proto::NodeDef& Add(const std::string& wanted, const std::string& op);
  StatusOr<DType> TypeOf(const NodeRef& ref) const;
  // Returns the nodes such that inputs come first. UNIMPLEMENTED or INVALID_ARGUMENT: there is a cycle.
  StatusOr<std::vector<int>> Order() const;
  // Limits the total cost, since each loop and each condition walks over the graph. RESOURCE_EXHAUSTED: too many walks.
  Status CheckCost(size_t walks, std::string_view what) const;

 private:
  proto::GraphDef& graph_;
  std::unordered_map<std::string, int> index_;
};

}  // namespace rivulet
