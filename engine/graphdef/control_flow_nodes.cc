#include "engine/graphdef/control_flow_nodes.h"

#include "engine/graph/inference.h"
#include "engine/graphdef/proto_conversion.h"
#include "engine/graphdef/verify.h"

namespace rivulet {

bool IsControlFlow(std::string_view op) {
  return op == "Switch" || op == "_SwitchN" || op == "Merge" || op == "Enter" || op == "Exit" ||
         op == "NextIteration" || op == "LoopCond";
}

std::string DescribeMessage(const proto::NodeDef& node) { return fmt::format("{} '{}'", node.op(), node.name()); }

StatusOr<NodeRef> ParseNodeRef(const std::string& text) {
  RIVULET_ASSIGN_OR_RETURN(const InputRef ref, ParseInputRef(text));
  return NodeRef{std::string(ref.node), ref.port, ref.control};
}

StatusOr<AttrMap> TypeAttributes(const proto::NodeDef& node, const OpDef& op) {
  AttrMap attrs;
  size_t budget = 0;
  for (const AttrDef& def : op.attrs) {
    using Kind = AttrDef::Kind;
    if (def.kind != Kind::kType && def.kind != Kind::kTypeList && def.kind != Kind::kInt) continue;
    const auto given = node.attr().find(def.name);
    if (given != node.attr().end()) {
      StatusOr<AttrValue> value = AttrFromProto(given->second, &def, budget);
      if (!value.ok())
        return Annotate(value.status(), fmt::format("{}: attribute '{}'", DescribeMessage(node), def.name));
      attrs.emplace(def.name, *std::move(value));
    } else if (def.default_value) {
      attrs.emplace(def.name, *def.default_value);
    }
  }
  for (const ArgDef& output : op.outputs)
    for (const std::string* name : {&output.type_attr, &output.number_attr, &output.type_list_attr})
      if (!name->empty() && !attrs.contains(*name))
        return InvalidArgument("{}: attribute '{}' is missing", DescribeMessage(node), *name);
  return attrs;
}

void SetTypes(proto::NodeDef& node, const std::string& attr, const std::vector<DType>& types) {
  auto& list = *(*node.mutable_attr())[attr].mutable_list();
  for (const DType dtype : types) list.add_type(static_cast<proto::DataType>(dtype));
}

ControlFlowNodes::ControlFlowNodes(proto::GraphDef& graph) : graph_(graph) {
  for (int i = 0; i < graph.node_size(); ++i) index_.emplace(graph.node(i).name(), i);
}

int ControlFlowNodes::Find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? -1 : found->second;
}

StatusOr<std::vector<NodeRef>> ControlFlowNodes::Inputs(int i) const {
  std::vector<NodeRef> refs;
  for (const std::string& text : at(i).input()) {
    StatusOr<NodeRef> ref = ParseNodeRef(text);
    if (!ref.ok()) return Annotate(ref.status(), DescribeMessage(at(i)));
    if (Find(ref->node) < 0)
      return NotFound("{}: its input '{}' is not in the graph", DescribeMessage(at(i)), ref->node);
    refs.push_back(*std::move(ref));
  }
  return refs;
}

proto::NodeDef& ControlFlowNodes::Add(const std::string& wanted, const std::string& op) {
  std::string name = wanted;
  for (int n = 1; index_.contains(name); ++n) name = fmt::format("{}_{}", wanted, n);
  index_.emplace(name, graph_.node_size());
  proto::NodeDef& node = *graph_.add_node();
  node.set_name(name);
  node.set_op(op);
  return node;
}

StatusOr<DType> ControlFlowNodes::TypeOf(const NodeRef& ref) const {
  const proto::NodeDef& node = at(Find(ref.node));
  if (node.op() == "LoopCond") return DType::kBool;
  if (node.op() == "Merge" && ref.port == 1) return DType::kInt32;
  if (IsControlFlow(node.op())) {
    const auto type = node.attr().find("T");
    if (type == node.attr().end()) return InvalidArgument("{}: attribute 'T' is missing", DescribeMessage(node));
    return DTypeFromProto(type->second.type());
  }
  const StatusOr<const OpDef*> op = OpRegistry::Global().Get(node.op());
  if (!op.ok()) return NotFound("node '{}': {}", node.name(), Message(op.status()));
  RIVULET_ASSIGN_OR_RETURN(const AttrMap attrs, TypeAttributes(node, **op));
  const std::vector<DType> types = OutputTypes(**op, attrs);
  if (ref.port < 0 || static_cast<size_t>(ref.port) >= types.size())
    return InvalidArgument("{} has no output {}", DescribeMessage(node), ref.port);
  return types[static_cast<size_t>(ref.port)];
}

StatusOr<std::vector<int>> ControlFlowNodes::Order() const { return BuildOrder(graph_); }

Status ControlFlowNodes::CheckCost(size_t walks, std::string_view what) const {
  constexpr size_t kMostVisits = 200'000'000;
  if (walks * static_cast<size_t>(size()) > kMostVisits)
    return ResourceExhausted("{} {} in a graph of {} nodes are too many to raise", walks, what, size());
  return absl::OkStatus();
}

}  // namespace rivulet
