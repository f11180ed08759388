#include "engine/graphdef/control_flow_bodies.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "engine/graphdef/control_flow_raiser.h"

namespace rivulet {
namespace {

// "node:output:index", as bodies name tensors.
StatusOr<std::string> OutputName(const proto::NodeDef& node, int port) {
  const StatusOr<const OpDef*> op = OpRegistry::Global().Get(node.op());
  if (!op.ok()) return NotFound("node '{}': {}", node.name(), Message(op.status()));
  RIVULET_ASSIGN_OR_RETURN(const AttrMap attrs, TypeAttributes(node, **op));
  int first = 0;
  for (const ArgDef& output : (*op)->outputs) {
    int64_t count = 1;
    if (!output.number_attr.empty())
      count = std::get<int64_t>(attrs.at(output.number_attr));
    else if (!output.type_list_attr.empty())
      count = static_cast<int64_t>(std::get<std::vector<DType>>(attrs.at(output.type_list_attr)).size());
    if (port >= first && port < first + count) return fmt::format("{}:{}:{}", node.name(), output.name, port - first);
    first += static_cast<int>(count);
  }
  return InvalidArgument("{} has no output {}", DescribeMessage(node), port);
}

// Adds a body's arguments as nodes while it is raised. It is then an ordinary graph, so nested loops and conditions
// need no special handling. Returns their names, in order.
std::vector<std::string> AddArguments(ControlFlowBody& body, const std::vector<DType>& types, int own) {
  proto::GraphDef& graph = body.graph;
  std::set<std::string> names;
  for (const proto::NodeDef& node : graph.node()) names.insert(node.name());
  std::vector<std::string> arguments;
  std::map<std::string, std::string> named;
  for (size_t i = 0; i < types.size(); ++i) {
    std::string name = fmt::format("arg_{}", i);
    while (!names.insert(name).second) name += "_";
    arguments.push_back(name);
    const int index = static_cast<int>(i);
    named[index < own ? ArgumentRef(index) : CaptureRef(index - own)] = name;
    proto::NodeDef& argument = *graph.add_node();
    argument.set_name(name);
    argument.set_op("_Arg");
    (*argument.mutable_attr())["T"].set_type(static_cast<proto::DataType>(types[i]));
    (*argument.mutable_attr())["index"].set_i(index);
  }
  const auto rename = [&](std::string& input) {
    if (const auto found = named.find(input); found != named.end()) input = found->second;
  };
  for (proto::NodeDef& node : *graph.mutable_node())
    for (std::string& input : *node.mutable_input()) rename(input);
  for (std::string& result : body.results) rename(result);
  return arguments;
}

// A graph with arguments, as a function's nodes and results.
Status WriteBody(ControlFlowBody& body, const std::vector<std::string>& arguments,
                 const std::vector<DType>& result_types, proto::FunctionDef* function, bool* stateful) {
  const ControlFlowNodes nodes(body.graph);
  const std::set<std::string> is_argument(arguments.begin(), arguments.end());
  const auto in_function = [&](const std::string& text) -> StatusOr<std::string> {
    RIVULET_ASSIGN_OR_RETURN(const NodeRef ref, ParseNodeRef(text));
    if (ref.control || is_argument.contains(ref.node)) return ref.ToString();
    const int i = nodes.Find(ref.node);
    if (i < 0) return NotFound("function '{}': its input '{}' is not in the graph", function->signature().name(), text);
    return OutputName(nodes.at(i), ref.port);
  };
  for (const proto::NodeDef& node : body.graph.node()) {
    if (node.op() == "_Arg") continue;
    proto::NodeDef& copy = *function->add_node_def();
    copy = node;
    copy.clear_input();
    for (const std::string& input : node.input()) {
      RIVULET_ASSIGN_OR_RETURN(const std::string translated, in_function(input));
      if (!(input.starts_with('^') && is_argument.contains(input.substr(1)))) copy.add_input(translated);
    }
    const OpDef* op = OpRegistry::Global().Find(node.op());
    *stateful = *stateful || (op != nullptr && op->stateful);
  }
  for (size_t i = 0; i < body.results.size(); ++i) {
    const std::string result = fmt::format("result_{}", i);
    auto* output = function->mutable_signature()->add_output_arg();
    output->set_name(result);
    output->set_type(static_cast<proto::DataType>(result_types[i]));
    RIVULET_ASSIGN_OR_RETURN((*function->mutable_ret())[result], in_function(body.results[i]));
  }
  return absl::OkStatus();
}

}  // namespace

int Captures::Add(const NodeRef& source) {
  const auto found = std::ranges::find(sources, source);
  if (found != sources.end()) return static_cast<int>(found - sources.begin());
  sources.push_back(source);
  return static_cast<int>(sources.size()) - 1;
}

std::string ArgumentRef(int i) { return fmt::format("%a{}", i); }
std::string CaptureRef(int i) { return fmt::format("%c{}", i); }

// A Switch hands on and does nothing, and is gone once its condition is raised: its inputs are waited for instead.
Status ControlFlowBodies::WaitFor(int node, Captures& captures) {
  std::set<int> seen = {node};
  std::vector<int> work = {node};
  while (!work.empty()) {
    const int i = work.back();
    work.pop_back();
    if (!IsSwitch(nodes_.at(i).op())) {
      captures.controls.insert(nodes_.at(i).name());
      continue;
    }
    RIVULET_ASSIGN_OR_RETURN(const std::vector<NodeRef> inputs, nodes_.Inputs(i));
    for (const NodeRef& input : inputs)
      if (const int from = nodes_.Find(input.node); seen.insert(from).second) work.push_back(from);
  }
  return absl::OkStatus();
}

// The traversal goes from the function's results to its inputs. Nodes with only side effects, such as prints, are
// included only if something waits for them: in version-1 graphs they run with the loop only because of a control
// edge.
StatusOr<ControlFlowBody> ControlFlowBodies::Extract(const std::vector<NodeRef>& roots, const BodyRegion& region,
                                                     Captures& captures) {
  ControlFlowBody body;
  std::set<int> taken;
  std::vector<int> work;
  const auto name_of = [&](const NodeRef& ref) -> StatusOr<std::string> {
    RIVULET_ASSIGN_OR_RETURN(std::string captured, region.capture(ref));
    if (!captured.empty()) return captured;
    const int i = nodes_.Find(ref.node);
    if (region.is_boundary(i))
      return Unimplemented("{}: its output {} is used where only the other one has a value",
                           DescribeMessage(nodes_.at(i)), ref.port);
    if (taken.insert(i).second) work.push_back(i);
    return ref.ToString();
  };
  for (const NodeRef& root : roots) {
    RIVULET_ASSIGN_OR_RETURN(std::string name, name_of(root));
    body.results.push_back(std::move(name));
  }
  while (!work.empty()) {
    const int i = work.back();
    work.pop_back();
    proto::NodeDef copy = nodes_.at(i);
    copy.clear_input();
    RIVULET_ASSIGN_OR_RETURN(const std::vector<NodeRef> inputs, nodes_.Inputs(i));
    for (const NodeRef& input : inputs) {
      if (!input.control) {
        RIVULET_ASSIGN_OR_RETURN(const std::string name, name_of(input));
        copy.add_input(name);
        continue;
      }
      const int before = nodes_.Find(input.node);
      if (region.is_boundary(before)) continue;
      if (!region.inside(before)) {
        RIVULET_RETURN_IF_ERROR(WaitFor(before, captures));
        continue;
      }
      if (taken.insert(before).second) work.push_back(before);
      copy.add_input(input.ToString());
    }
    *body.graph.add_node() = std::move(copy);
  }
  return body;
}

std::string ControlFlowBodies::UnusedName(std::string wanted) const {
  for (char& c : wanted)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  std::string name = wanted;
  const auto taken = [&] {
    return std::ranges::any_of(library_.function(),
                               [&](const proto::FunctionDef& f) { return f.signature().name() == name; });
  };
  for (int n = 1; taken(); ++n) name = fmt::format("{}_{}", wanted, n);
  return name;
}

StatusOr<std::string> ControlFlowBodies::AddFunction(const std::string& wanted, ControlFlowBody& body,
                                                     const std::vector<DType>& types, int own,
                                                     const std::vector<DType>& result_types) {
  const std::vector<std::string> arguments = AddArguments(body, types, own);
  ControlFlowRaiser inner(body.graph, library_, depth_ + 1);
  inner.bodies().stateful_ = stateful_;
  RIVULET_RETURN_IF_ERROR(inner.Run(&body.results));
  stateful_ = inner.bodies().stateful_;

  const std::string name = UnusedName(wanted);
  proto::FunctionDef function;
  function.mutable_signature()->set_name(name);
  for (size_t i = 0; i < types.size(); ++i) {
    auto* argument = function.mutable_signature()->add_input_arg();
    argument->set_name(arguments[i]);
    argument->set_type(static_cast<proto::DataType>(types[i]));
  }
  bool stateful = false;
  RIVULET_RETURN_IF_ERROR(WriteBody(body, arguments, result_types, &function, &stateful));
  if (stateful) stateful_.insert(name);
  *library_.add_function() = std::move(function);
  return name;
}

}  // namespace rivulet
