#include "engine/graphdef/function_library.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <unordered_map>

#include "engine/base/nearest.h"
#include "engine/graph/function_call.h"
#include "engine/graph/op.h"
#include "engine/graphdef/proto_conversion.h"
#include "engine/graphdef/verify.h"

namespace rivulet {
namespace {

// Calls within calls: each costs stack while a program is compiled.
constexpr int kDeepestCalls = 64;

// Names are quoted in messages; those from outside may be long or hold control characters.
std::string PrintableText(std::string_view text) {
  std::string out;
  for (char c : text.substr(0, 80)) out += c >= ' ' && c < '\x7f' ? c : '?';
  return text.size() > 80 ? out + "…" : out;
}

std::string QuotedFunction(const proto::FunctionDef& function) {
  return fmt::format("function '{}'", PrintableText(function.signature().name()));
}

// How many tensors an output of a node is: list outputs have as many as an attribute says.
StatusOr<int64_t> TensorsOf(const ArgDef& output, const proto::NodeDef& node) {
  const std::string& attr = output.number_attr.empty() ? output.type_list_attr : output.number_attr;
  if (attr.empty()) return 1;
  const auto found = node.attr().find(attr);
  if (found != node.attr().end() && !output.number_attr.empty() && found->second.value_case() == proto::AttrValue::kI &&
      found->second.i() >= 0 && found->second.i() <= 65'536)
    return found->second.i();
  if (found != node.attr().end() && output.number_attr.empty() && found->second.value_case() == proto::AttrValue::kList)
    return found->second.list().type_size();
  return InvalidArgument("{} '{}' does not say by its attribute '{}' how many outputs it has", PrintableText(node.op()),
                         PrintableText(node.name()), attr);
}

std::vector<std::string> Called(const proto::NodeDef& node) {
  std::vector<std::string> names;
  for (const auto& [name, value] : node.attr()) {
    if (name.starts_with('_')) continue;
    if (value.value_case() == proto::AttrValue::kFunc) names.push_back(value.func().name());
    if (value.value_case() == proto::AttrValue::kList)
      for (const auto& each : value.list().func()) names.push_back(each.name());
  }
  std::ranges::sort(names);  // protobuf's maps have no order
  return names;
}

// Where an argument's shape is noted. A list's is that of its tensors, which TensorFlow, to which it is a scalar, must
// not read as the argument's.
const char* ShapesNote(proto::DataType type) {
  if (type == proto::DT_VARIANT) return "_list_shapes";
  return type == proto::DT_RESOURCE ? "_handle_shapes" : "_output_shapes";
}

// A call by name is small in the file and may cause any amount of work: ten functions that each call the previous one
// twice become a thousand bodies when inlined. So the library computes the expanded size of every call before anything
// is built, and names the call that it refuses.
class Library {
 public:
  Library(proto::GraphDef& graph, const GraphLimits& limits) : graph_(graph), limits_(limits) {}

  StatusOr<std::vector<LibraryFunction>> Take() {
    for (const proto::FunctionDef& function : graph_.library().function()) {
      const std::string& name = function.signature().name();
      if (!functions_.try_emplace(name, &function).second)
        return InvalidArgument("the graph has two functions of the name '{}'", PrintableText(name));
    }
    RIVULET_RETURN_IF_ERROR(CallByName(graph_));
    std::vector<std::string> path;
    size_t expanded = static_cast<size_t>(graph_.node_size());
    for (const proto::NodeDef& node : graph_.node())
      for (const std::string& name : Called(node)) {
        const Status visited = Visit(name, path);
        if (!visited.ok())
          return Annotate(visited, fmt::format("{} '{}'", PrintableText(node.op()), PrintableText(node.name())));
        expanded += expanded_[name];
        if (expanded > limits_.expanded_nodes)
          return ResourceExhausted("the graph has more than {} nodes when the functions that '{}' calls are counted",
                                   limits_.expanded_nodes, PrintableText(node.name()));
      }
    graph_.clear_library();
    return std::move(taken_);
  }

 private:
  // Nodes whose op is a function's name become calls of that function. Older files call functions
  // in this form. The library knows names and signatures; afterwards there is only one form of
  // call.
  Status CallByName(proto::GraphDef& graph) {
    for (proto::NodeDef& node : *graph.mutable_node()) {
      if (OpRegistry::Global().Find(node.op()) != nullptr) continue;
      const auto found = functions_.find(node.op());
      if (found == functions_.end()) continue;
      const proto::OpDef& signature = found->second->signature();
      std::vector<std::string> foreign;
      for (const auto& [name, value] : node.attr())
        if (!name.starts_with('_')) foreign.push_back(name);
      if (!foreign.empty())
        return Unimplemented(
            "'{}' calls the function '{}' with the attribute '{}'; functions that differ by attributes are not "
            "supported, so export each form as a separate function",
            PrintableText(node.name()), PrintableText(node.op()), PrintableText(foreign[0]));
      proto::AttrValue in, out;
      in.mutable_list();
      out.mutable_list();
      for (const auto& argument : signature.input_arg()) in.mutable_list()->add_type(argument.type());
      for (const auto& result : signature.output_arg()) out.mutable_list()->add_type(result.type());
      (*node.mutable_attr())["Tin"] = in;
      (*node.mutable_attr())["Tout"] = out;
      (*node.mutable_attr())["f"].mutable_func()->set_name(node.op());
      node.set_op(signature.is_stateful() ? "StatefulPartitionedCall" : "PartitionedCall");
    }
    return absl::OkStatus();
  }

  // Extracts `name` after its callees, so that building in this order always finds the callees. The
  // current path distinguishes recursion, whose cycle it describes, from a function that is called
  // twice.
  Status Visit(const std::string& name, std::vector<std::string>& path) {
    if (expanded_.contains(name)) return absl::OkStatus();
    const auto found = functions_.find(name);
    if (found == functions_.end()) {
      std::vector<std::string> names;
      for (const auto& [known, function] : functions_) names.push_back(known);
      return NotFound("the graph has no function '{}'.{}", PrintableText(name), DidYouMean(name, names));
    }
    if (const auto start = std::ranges::find(path, name); start != path.end()) {
      std::string way;
      for (auto at = start; at != path.end(); ++at) way += fmt::format("'{}' -> ", PrintableText(*at));
      return InvalidArgument("the function calls itself: {}'{}'; use a While instead", way, PrintableText(name));
    }
    if (path.size() >= kDeepestCalls)
      return ResourceExhausted("functions call one another more than {} deep, down to '{}'", kDeepestCalls,
                               PrintableText(name));
    path.push_back(name);
    LibraryFunction function;
    RIVULET_RETURN_IF_ERROR(Annotate(TakeApart(*found->second, function), QuotedFunction(*found->second)));
    size_t expanded = static_cast<size_t>(function.body.node_size());
    nodes_ += expanded;
    if (nodes_ > limits_.nodes)
      return ResourceExhausted("the graph's functions have more than {} nodes", limits_.nodes);
    std::set<std::string> calls;
    for (const proto::NodeDef& node : function.body.node())
      for (const std::string& callee : Called(node)) {
        RIVULET_RETURN_IF_ERROR(Visit(callee, path));
        expanded += expanded_[callee];
        if (expanded > limits_.expanded_nodes)
          return ResourceExhausted("{} has more than {} nodes when those of the functions that it calls are counted",
                                   QuotedFunction(*found->second), limits_.expanded_nodes);
        calls.insert(callee);
      }
    path.pop_back();
    function.calls.assign(calls.begin(), calls.end());
    expanded_[name] = expanded;
    taken_.push_back(std::move(function));
    return absl::OkStatus();
  }

  Status TakeApart(const proto::FunctionDef& def, LibraryFunction& out) {
    const proto::OpDef& signature = def.signature();
    out.name = signature.name();
    if (signature.attr_size() > 0)
      return Unimplemented("is polymorphic by its attribute '{}'; export each form as a separate function",
                           PrintableText(signature.attr(0).name()));
    if (static_cast<size_t>(def.node_def_size()) > limits_.nodes)
      return ResourceExhausted("has {} nodes, more than {}", def.node_def_size(), limits_.nodes);
    const auto noinline = def.attr().find("_noinline");
    out.noinline = noinline != def.attr().end() && noinline->second.b();

    std::unordered_map<std::string_view, const proto::NodeDef*> nodes;
    std::unordered_map<std::string_view, int> arguments;
    for (int i = 0; i < signature.input_arg_size(); ++i) {
      const auto& argument = signature.input_arg(i);
      if (!argument.type_attr().empty() || !argument.number_attr().empty() || !argument.type_list_attr().empty() ||
          argument.is_ref())
        return Unimplemented("is polymorphic by its argument '{}'; export each form as a separate function",
                             PrintableText(argument.name()));
      if (!arguments.try_emplace(argument.name(), i).second)
        return InvalidArgument("has two arguments of the name '{}'", PrintableText(argument.name()));
    }
    for (const proto::NodeDef& node : def.node_def()) {
      if (node.op() == "_Arg" || node.op() == "VarHandleOp")
        return Unimplemented(
            "has a node {} '{}'; {}", node.op(), PrintableText(node.name()),
            node.op() == "_Arg" ? "arguments stand in the signature" : "pass the variable's handle as an argument");
      nodes.try_emplace(node.name(), &node);
    }
    const auto convert = [&](std::string_view text) { return InputOf(text, arguments, nodes); };
    for (int i = 0; i < signature.input_arg_size(); ++i) AddArgument(def, i, out.body);
    for (const proto::NodeDef& node : def.node_def()) {
      for (const auto& [name, value] : node.attr())
        if (value.value_case() == proto::AttrValue::kPlaceholder && !name.starts_with('_'))
          return Unimplemented("is polymorphic: attribute '{}' of {} '{}' is left open", PrintableText(name),
                               PrintableText(node.op()), PrintableText(node.name()));
      proto::NodeDef* copy = out.body.add_node();
      *copy = node;
      for (std::string& input : *copy->mutable_input()) {
        StatusOr<std::string> converted = convert(input);
        if (!converted.ok())
          return Annotate(converted.status(),
                          fmt::format("{} '{}'", PrintableText(node.op()), PrintableText(node.name())));
        input = *std::move(converted);
      }
    }
    for (const auto& result : signature.output_arg()) {
      const auto found = def.ret().find(result.name());
      if (found == def.ret().end())
        return InvalidArgument("does not say which tensor its result '{}' is", PrintableText(result.name()));
      StatusOr<std::string> converted = convert(found->second);
      if (!converted.ok())
        return Annotate(converted.status(), fmt::format("result '{}'", PrintableText(result.name())));
      if (std::ranges::find(out.result_names, result.name()) != out.result_names.end())
        return InvalidArgument("has two results of the name '{}'", PrintableText(result.name()));
      out.results.push_back(*std::move(converted));
      out.result_names.push_back(result.name());
    }
    for (const std::string& control : signature.control_output()) {
      const auto found = def.control_ret().find(control);
      if (found == def.control_ret().end() || !nodes.contains(found->second))
        return InvalidArgument("does not say which node its control result '{}' is", PrintableText(control));
      out.control_results.push_back(found->second);
    }
    RIVULET_RETURN_IF_ERROR(CallByName(out.body));
    return absl::OkStatus();
  }

  static void AddArgument(const proto::FunctionDef& def, int index, proto::GraphDef& body) {
    const auto& argument = def.signature().input_arg(index);
    proto::NodeDef* node = body.add_node();
    node->set_name(argument.name());
    node->set_op("_Arg");
    auto& attrs = *node->mutable_attr();
    attrs["T"].set_type(argument.type());
    attrs["index"].set_i(index);
    const bool handle = argument.type() == proto::DT_RESOURCE;
    const auto notes = def.arg_attr().find(static_cast<uint32_t>(index));
    if (notes != def.arg_attr().end()) {
      const auto& known = notes->second.attr();
      const auto shapes = known.find(ShapesNote(argument.type()));
      if (shapes != known.end() && shapes->second.list().shape_size() == 1)
        *attrs["shape"].mutable_shape() = shapes->second.list().shape(0);
      const auto dtypes = known.find("_handle_dtypes");
      if (handle && dtypes != known.end() && dtypes->second.list().type_size() == 1)
        attrs["_handle_dtype"].set_type(dtypes->second.list().type(0));
    }
    if (!handle || attrs.contains("_handle_dtype")) return;
    // A read of the variable has its type.
    for (const proto::NodeDef& user : def.node_def()) {
      if (std::ranges::find(user.input(), argument.name()) == user.input().end()) continue;
      auto type = user.attr().find("dtype");
      if (type == user.attr().end()) type = user.attr().find("T");
      if (type == user.attr().end() || type->second.value_case() != proto::AttrValue::kType) continue;
      if (type->second.type() == proto::DT_RESOURCE) continue;
      attrs["_handle_dtype"].set_type(type->second.type());
      return;
    }
  }

  // "argument", "node:output:1" or "^node" in a graph's form: "argument", "node:2", "^node". Bodies name tensors by
  // output name and index within it, graphs by one number over all outputs. The length of a list output depends on the
  // node's attributes.
  StatusOr<std::string> InputOf(std::string_view text, const std::unordered_map<std::string_view, int>& arguments,
                                const std::unordered_map<std::string_view, const proto::NodeDef*>& nodes) const {
    if (text.starts_with('^')) return std::string(text);
    const size_t first = text.find(':');
    if (first == std::string_view::npos) {
      if (!arguments.contains(text)) return NotFound("the function has no argument '{}'", PrintableText(text));
      return std::string(text);
    }
    const size_t second = text.find(':', first + 1);
    const std::string_view name = text.substr(0, first);
    std::string_view output = text.substr(first + 1), digits = "0";
    if (second != std::string_view::npos) {
      output = text.substr(first + 1, second - first - 1);
      digits = text.substr(second + 1);
    }
    int64_t index = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error != std::errc() || end != digits.data() + digits.size() || index < 0 || index > 1'000'000)
      return InvalidArgument("the input '{}' is malformed; inputs are 'argument', 'node:output:0' or '^node'",
                             PrintableText(text));
    const auto found = nodes.find(name);
    if (found == nodes.end()) return NotFound("the input '{}' is of no node of the function", PrintableText(text));
    RIVULET_ASSIGN_OR_RETURN(const int64_t port, PortOf(*found->second, output, index));
    return fmt::format("{}:{}", name, port);
  }

  StatusOr<int64_t> PortOf(const proto::NodeDef& node, std::string_view output, int64_t index) const {
    const OpDef* op = OpRegistry::Global().Find(node.op());
    const auto function = functions_.find(node.op());
    if (op == nullptr && function != functions_.end()) {
      const auto& results = function->second->signature().output_arg();
      for (int i = 0; i < results.size(); ++i)
        if (results[i].name() == output && index == 0) return i;
    } else if (op == nullptr) {
      return OpRegistry::Global().Get(node.op()).status();
    } else {
      int64_t port = 0;
      for (const ArgDef& each : op->outputs) {
        RIVULET_ASSIGN_OR_RETURN(const int64_t count, TensorsOf(each, node));
        if (each.name == output && index < count) return port + index;
        port += count;
      }
    }
    return NotFound("{} '{}' has no output '{}:{}'", PrintableText(node.op()), PrintableText(node.name()),
                    PrintableText(output), index);
  }

  proto::GraphDef& graph_;
  const GraphLimits& limits_;
  std::map<std::string, const proto::FunctionDef*> functions_;
  std::unordered_map<std::string, size_t> expanded_;  // nodes, every call counted anew; of functions taken
  size_t nodes_ = 0;
  std::vector<LibraryFunction> taken_;
};

// "node:output:1" of a tensor of a body; the argument's name of an argument.
std::string BodyInput(Output tensor) {
  if (tensor.node->type() == "_Arg") return tensor.node->name();
  int port = tensor.port;
  for (const ArgDef& output : tensor.node->op().outputs) {
    int count = 1;
    if (!output.number_attr.empty()) count = static_cast<int>(tensor.node->attr<int64_t>(output.number_attr));
    if (!output.type_list_attr.empty())
      count = static_cast<int>(tensor.node->attr<std::vector<DType>>(output.type_list_attr).size());
    if (port < count) return fmt::format("{}:{}:{}", tensor.node->name(), output.name, port);
    port -= count;
  }
  RIVULET_CHECK(false, "'{}' has no output {}", tensor.node->name(), tensor.port);
  return "";
}

}  // namespace

StatusOr<std::vector<LibraryFunction>> TakeLibrary(proto::GraphDef& graph, const GraphLimits& limits) {
  return Library(graph, limits).Take();
}

void ToProto(const Function& function, proto::FunctionDef* out) {
  proto::OpDef* signature = out->mutable_signature();
  signature->set_name(function.name);
  for (size_t i = 0; i < function.arguments.size(); ++i) {
    const Node& argument = *function.arguments[i];
    auto* arg = signature->add_input_arg();
    arg->set_name(argument.name());
    arg->set_type(static_cast<proto::DataType>(static_cast<int>(function.argument_dtype(i))));
    const bool handle = function.argument_dtype(i) == DType::kResource;
    const Shape& shape = argument.attr<Shape>("shape");
    const DType variable = handle ? HandleDType(argument) : DType::kInvalid;
    if (!shape.known_rank() && variable == DType::kInvalid) continue;
    auto& notes = *(*out->mutable_arg_attr())[static_cast<uint32_t>(i)].mutable_attr();
    if (shape.known_rank()) ToProto(shape, notes[ShapesNote(arg->type())].mutable_list()->add_shape());
    if (variable != DType::kInvalid)
      notes["_handle_dtypes"].mutable_list()->add_type(static_cast<proto::DataType>(static_cast<int>(variable)));
  }
  for (size_t i = 0; i < function.results.size(); ++i) {
    auto* result = signature->add_output_arg();
    result->set_name(function.result_names[i]);
    result->set_type(static_cast<proto::DataType>(static_cast<int>(function.result_dtype(i))));
    (*out->mutable_ret())[function.result_names[i]] = BodyInput(function.results[i]);
  }
  for (const Node* control : function.control_results) {
    signature->add_control_output(control->name());
    (*out->mutable_control_ret())[control->name()] = control->name();
  }
  std::vector<Node*> all;
  bool stateful = false;
  for (const auto& node : function.body->nodes()) all.push_back(node.get());
  for (const Node* node : function.body->TopologicalOrder(all)) {
    if (node->type() == "_Arg") continue;
    stateful = stateful || node->op().stateful;
    proto::NodeDef* def = out->add_node_def();
    def->set_name(node->name());
    def->set_op(std::string(node->type()));
    def->set_device(node->device());
    for (const Output& input : node->inputs()) def->add_input(BodyInput(input));
    for (const Node* before : node->control_inputs())
      if (before->type() != "_Arg") def->add_input("^" + before->name());
    for (const auto& [name, value] : node->attrs()) ToProto(value, &(*def->mutable_attr())[name]);
  }
  signature->set_is_stateful(stateful);
  if (function.noinline) (*out->mutable_attr())["_noinline"].set_b(true);
}

}  // namespace rivulet
