#include "engine/graphdef/raise_control_flow.h"

#include <set>
#include <string_view>

#include "engine/graphdef/control_flow_raiser.h"
#include "engine/graphdef/raise_stacks.h"

namespace rivulet {

// Loops are raised first, as their frames follow from the graph alone. A condition inside a loop is raised with the
// loop's body, as a graph without cycles. Raising from the outside in applies the same code to each body, one level
// deeper.
Status ControlFlowRaiser::Run(const std::vector<std::string>* results) {
  if (depth_ > kDeepestControlFlow)
    return Unimplemented("loops and conditions are nested more than {} deep", kDeepestControlFlow);
  bool any = false;
  for (int i = 0; i < nodes_.size(); ++i) any = any || IsControlFlow(nodes_.at(i).op());
  if (!any) return absl::OkStatus();
  RIVULET_ASSIGN_OR_RETURN(const std::set<std::string> removed, RaiseLoops(nodes_, bodies_));
  RIVULET_ASSIGN_OR_RETURN(const auto branches, RaiseConditions(nodes_, bodies_));
  return Prune(results, removed, branches);
}

Status ControlFlowRaiser::Prune(const std::vector<std::string>* results, const std::set<std::string>& removed,
                                const std::map<std::string, ControlFlowBranches>& all_branches) {
  std::set<int> kept;
  std::vector<int> work;
  const auto keep = [&](int i) {
    if (i >= 0 && kept.insert(i).second) work.push_back(i);
  };
  std::set<std::string> used;
  for (int i = 0; i < nodes_.size(); ++i) {
    RIVULET_ASSIGN_OR_RETURN(const std::vector<NodeRef> inputs, nodes_.Inputs(i));
    for (const NodeRef& input : inputs) used.insert(input.node);
  }
  for (int i = 0; i < nodes_.size(); ++i) {
    const proto::NodeDef& node = nodes_.at(i);
    const auto branches = all_branches.find(node.name());
    const bool in_branch = branches != all_branches.end() && !branches->second.empty();
    const bool plumbing = (IsSwitch(node.op()) && used.contains(node.name())) || removed.contains(node.name());
    if (results == nullptr ? !in_branch && !plumbing : node.op() == "_Arg") keep(i);
  }
  if (results != nullptr)
    for (const std::string& result : *results) {
      RIVULET_ASSIGN_OR_RETURN(const NodeRef ref, ParseNodeRef(result));
      keep(nodes_.Find(ref.node));
    }
  while (!work.empty()) {
    const int i = work.back();
    work.pop_back();
    if (IsSwitch(nodes_.at(i).op()))
      return Unimplemented("{}: its outputs reach no Merge, so it is no tf.cond", DescribeMessage(nodes_.at(i)));
    RIVULET_ASSIGN_OR_RETURN(const std::vector<NodeRef> inputs, nodes_.Inputs(i));
    for (const NodeRef& input : inputs) keep(nodes_.Find(input.node));
  }
  int count = 0;
  for (int i = 0; i < graph_.node_size(); ++i)
    if (kept.contains(i)) graph_.mutable_node()->SwapElements(count++, i);
  graph_.mutable_node()->DeleteSubrange(count, graph_.node_size() - count);
  return absl::OkStatus();
}

// References are variables', and by now values; the reference forms mean the same.
Status RaiseControlFlow(proto::GraphDef& graph) {
  for (proto::NodeDef& node : *graph.mutable_node())
    for (const std::string_view op : {"RefSwitch", "RefMerge", "RefEnter", "RefExit", "RefNextIteration"})
      if (node.op() == op) node.set_op(std::string(op.substr(3)));
  std::set<std::string_view> names;
  for (const proto::NodeDef& node : graph.node())
    if (!names.insert(node.name()).second) return absl::OkStatus();  // the verifier reports it
  RIVULET_RETURN_IF_ERROR(RaiseStacks(graph));
  proto::FunctionDefLibrary library;
  RIVULET_RETURN_IF_ERROR(ControlFlowRaiser(graph, library, 0).Run(nullptr));
  for (proto::FunctionDef& function : *library.mutable_function())
    graph.mutable_library()->add_function()->Swap(&function);
  return absl::OkStatus();
}

}  // namespace rivulet
