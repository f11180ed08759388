#include "engine/graphdef/graph_def.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>

#include <map>
#include <unordered_map>
#include <unordered_set>

#include "engine/base/nearest.h"
#include "engine/graph/function_call.h"
#include "engine/graph/op.h"
#include "engine/graphdef/function_library.h"
#include "engine/graphdef/proto_conversion.h"
#include "engine/graphdef/raise_control_flow.h"
#include "engine/graphdef/raise_synonyms.h"
#include "engine/graphdef/raise_variables.h"
#include "engine/graphdef/verify.h"
#include "proto/graph/graph.pb.h"

namespace rivulet {
namespace {

// TensorFlow's graph version that first knew every op used here.
constexpr int kProducerVersion = 440;

// Protobuf's maps are unordered; a plan's digest needs an order.
template <typename Message>
std::string Deterministic(const Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);  // maps by key
    message.SerializeToCodedStream(&out);
  }
  return bytes;
}

// TensorFlow's attributes that configure its kernels and change no result; dropped with any value. The list is by name,
// as this needs human knowledge. Every other unknown attribute with a value is refused.
bool IsForeignHint(std::string_view attr) {
  static const std::unordered_set<std::string_view> kHints = {
      "use_cudnn_on_gpu", "allowed_devices",     "debug_name", "use_locking", "validate_shape",
      "grad_a",           "parallel_iterations", "grad_b",     "grad_x",      "grad_y"};
  return kHints.contains(attr);
}

// Attributes with a value that describes the only behaviour of the ops here.
bool SaysWhatWeDo(std::string_view attr, const proto::AttrValue& value) {
  return attr == "incompatible_shape_error" && value.value_case() == proto::AttrValue::kB && value.b();
}

void DropHints(proto::GraphDef& graph) {
  for (proto::NodeDef& node : *graph.mutable_node()) {
    const OpDef* op = OpRegistry::Global().Find(node.op());
    if (op == nullptr) continue;
    std::vector<std::string> drop;
    for (const auto& [name, value] : node.attr())
      if (op->FindAttr(name) == nullptr && (IsForeignHint(name) || SaysWhatWeDo(name, value))) drop.push_back(name);
    for (const std::string& name : drop) node.mutable_attr()->erase(name);
  }
}

// Keeps the nodes that `roots` need. Malformed inputs are left for the verifier. It runs first,
// because a file may contain a whole training setup around the model, with unknown ops that are not
// needed.
Status Prune(proto::GraphDef& graph, const std::vector<std::string>& roots) {
  std::unordered_map<std::string, int> index;
  for (int i = 0; i < graph.node_size(); ++i) index.emplace(graph.node(i).name(), i);
  std::vector<int> stack;
  for (const std::string& root : roots) {
    RIVULET_ASSIGN_OR_RETURN(const InputRef ref, ParseInputRef(root));
    const auto found = index.find(std::string(ref.node));
    if (found == index.end()) {
      std::vector<std::string> names;
      for (const proto::NodeDef& node : graph.node()) names.push_back(node.name());
      return NotFound("the graph has no node '{}'.{}", ref.node, DidYouMean(ref.node, names));
    }
    stack.push_back(found->second);
  }
  std::vector<bool> keep(static_cast<size_t>(graph.node_size()));
  while (!stack.empty()) {
    const int i = stack.back();
    stack.pop_back();
    if (keep[static_cast<size_t>(i)]) continue;
    keep[static_cast<size_t>(i)] = true;
    for (const std::string& text : graph.node(i).input()) {
      const StatusOr<InputRef> ref = ParseInputRef(text);
      if (!ref.ok()) continue;
      if (const auto found = index.find(std::string(ref->node)); found != index.end()) stack.push_back(found->second);
    }
  }
  // A second node of a kept name is kept too, for the verifier to find.
  for (int i = 0; i < graph.node_size(); ++i)
    if (keep[static_cast<size_t>(index.at(graph.node(i).name()))]) keep[static_cast<size_t>(i)] = true;
  int kept = 0;
  for (int i = 0; i < graph.node_size(); ++i)
    if (keep[static_cast<size_t>(i)]) graph.mutable_node()->SwapElements(kept++, i);
  graph.mutable_node()->DeleteSubrange(kept, graph.node_size() - kept);
  return absl::OkStatus();
}

using Functions = std::map<std::string, std::shared_ptr<const Function>>;

// The nodes of `def`, which passed RaiseReferenceVariables and holds no library any more.
StatusOr<Graph> BuildNodes(proto::GraphDef& def, const GraphLimits& limits, const Functions& functions,
                           size_t& fill_budget) {
  RaiseSynonyms(def);
  DropHints(def);
  RIVULET_RETURN_IF_ERROR(VerifyGraph(def, limits));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int> order, BuildOrder(def));
  Graph graph;
  for (const auto& [name, function] : functions) RIVULET_RETURN_IF_ERROR(graph.AddFunction(function));
  for (int i : order) {
    const proto::NodeDef& node = def.node(i);
    NodeSpec spec{node.name(), node.op(), {}, {}, {}, {}, node.device()};
    for (const std::string& text : node.input()) {
      RIVULET_ASSIGN_OR_RETURN(const InputRef ref, ParseInputRef(text));
      Node* producer = graph.Find(ref.node);
      if (ref.control) {
        spec.control_inputs.push_back(producer);
      } else {
        spec.inputs.push_back({producer, ref.port});
      }
    }
    const OpDef* op = OpRegistry::Global().Find(node.op());
    for (const auto& [name, value] : node.attr()) {
      const AttrDef* attr = op->FindAttr(name);
      const std::string where = fmt::format("{} '{}': attribute '{}'", node.op(), node.name(), name);
      if (attr == nullptr && (!name.starts_with('_') || value.value_case() == proto::AttrValue::kFunc ||
                              value.value_case() == proto::AttrValue::kPlaceholder))
        continue;  // the verifier let only those pass that mean nothing
      StatusOr<AttrValue> converted = AttrFromProto(value, attr, fill_budget);
      if (!converted.ok()) {
        if (attr == nullptr) continue;  // a note of TensorFlow's that cannot be kept
        return Annotate(converted.status(), where);
      }
      spec.attrs.emplace(name, *std::move(converted));
    }
    RIVULET_RETURN_IF_ERROR(graph.AddNode(std::move(spec)).status());
  }
  return graph;
}

// The variable type of a handle argument if the body does not read it but only passes it to a function that
// does. Bodies are built callees first, so the types of a callee's arguments are known when its caller is
// built.
void TellHandleTypes(proto::GraphDef& body, const Functions& known) {
  std::unordered_map<std::string, DType> types;
  for (const proto::NodeDef& node : body.node()) {
    const int first = node.op().ends_with("If") || node.op().ends_with("Case") ? 1 : 0;
    for (const auto& [attr, value] : node.attr()) {
      if (attr.starts_with('_')) continue;
      std::vector<std::string> callees;
      if (value.value_case() == proto::AttrValue::kFunc) callees.push_back(value.func().name());
      for (const auto& each : value.list().func()) callees.push_back(each.name());
      for (const std::string& callee : callees) {
        const auto found = known.find(callee);
        if (found == known.end()) continue;
        const std::vector<Node*>& arguments = found->second->arguments;
        for (int i = first; i < node.input_size() && static_cast<size_t>(i - first) < arguments.size(); ++i) {
          const DType dtype = HandleDType(*arguments[static_cast<size_t>(i - first)]);
          if (dtype != DType::kInvalid) types.emplace(node.input(i), dtype);
        }
      }
    }
  }
  for (proto::NodeDef& node : *body.mutable_node()) {
    const auto found = types.find(node.name());
    if (node.op() != "_Arg" || found == types.end() || node.attr().contains("_handle_dtype") ||
        node.attr().at("T").type() != proto::DT_RESOURCE)
      continue;
    (*node.mutable_attr())["_handle_dtype"].set_type(static_cast<proto::DataType>(static_cast<int>(found->second)));
  }
}

StatusOr<std::shared_ptr<const Function>> BuildFunction(LibraryFunction& function, const GraphLimits& limits,
                                                        const Functions& known, size_t& fill_budget) {
  Functions called;
  for (const std::string& name : function.calls) called.emplace(name, known.at(name));
  TellHandleTypes(function.body, called);
  RIVULET_ASSIGN_OR_RETURN(Graph body, BuildNodes(function.body, limits, called, fill_budget));
  std::vector<Output> results;
  for (const std::string& result : function.results) {
    RIVULET_ASSIGN_OR_RETURN(const Output output, body.FindOutput(result));
    results.push_back(output);
  }
  std::vector<Node*> controls;
  for (const std::string& control : function.control_results) controls.push_back(body.Find(control));
  return Function::Create(function.name, std::move(body), std::move(results), std::move(controls),
                          std::move(function.result_names), function.noinline);
}

// The order matters. Arrays are raised before loops, so that a flow that leaves a loop is already a list. Both run
// before the library is extracted, as raising adds to it. The verifier runs last, on the remaining forms.
StatusOr<Graph> Build(proto::GraphDef def, const GraphImport& options) {
  if (static_cast<size_t>(def.node_size()) > options.limits.nodes)
    return ResourceExhausted("the graph has {} nodes, more than {}", def.node_size(), options.limits.nodes);
  if (!options.roots.empty()) RIVULET_RETURN_IF_ERROR(Prune(def, options.roots));
  RIVULET_RETURN_IF_ERROR(RaiseReferenceVariables(def));
  RIVULET_RETURN_IF_ERROR(RaiseTensorArrays(def));
  RIVULET_RETURN_IF_ERROR(RaiseControlFlow(def));
  RIVULET_ASSIGN_OR_RETURN(std::vector<LibraryFunction> library, TakeLibrary(def, options.limits));
  size_t fill_budget = options.limits.filled_bytes;
  Functions functions;
  for (LibraryFunction& function : library) {
    StatusOr<std::shared_ptr<const Function>> built = BuildFunction(function, options.limits, functions, fill_budget);
    if (!built.ok()) return Annotate(built.status(), fmt::format("function '{}'", function.name));
    functions.emplace(function.name, *std::move(built));
  }
  return BuildNodes(def, options.limits, functions, fill_budget);
}

void AddCalled(const Graph& graph, std::map<std::string, const Function*>& called) {
  const auto add = [&](const std::string& name) {
    const Function* function = graph.FindFunction(name);
    if (function != nullptr && called.emplace(name, function).second) AddCalled(*function->body, called);
  };
  for (const auto& node : graph.nodes())
    for (const auto& [name, value] : node->attrs()) {
      if (const auto* function = std::get_if<FunctionRef>(&value)) add(function->name);
      if (const auto* list = std::get_if<std::vector<FunctionRef>>(&value))
        for (const FunctionRef& function : *list) add(function.name);
    }
}

// The functions that a graph's nodes call, directly or indirectly.
std::map<std::string, const Function*> CalledFunctions(const Graph& graph) {
  std::map<std::string, const Function*> called;
  AddCalled(graph, called);
  return called;
}

// Fields of newer TensorFlow's that repeat the types of values, or say where Python made a node. The binary form keeps
// them as unknown fields; the text form names them. Any other unknown field is a mistake.
bool IsForeignField(std::string_view name) {
  static const std::unordered_set<std::string_view> kFields = {
      "experimental_type", "experimental_full_type", "handle_data", "is_distributed_communication", "debug_info"};
  return kFields.contains(name);
}

// The first error of a text, or the first field that is neither known nor a foreign one: the parser skips an unknown
// field with a warning that ends in its name, in quotes.
class ErrorText : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text_.empty()) text_ = fmt::format("line {}, column {}: {}", line + 1, column + 1, message);
  }
  void AddWarning(int line, int column, const std::string& message) override {
    const size_t end = message.rfind('"'), begin = end == 0 ? message.npos : message.rfind('"', end - 1);
    if (end == message.npos || begin == message.npos ||
        !IsForeignField(std::string_view(message).substr(begin + 1, end - begin - 1)))
      AddError(line, column, message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

// Canonical, so that equal graphs have equal digests: nodes in topological order, attributes by name, and functions
// only where something calls them.
std::string SerializeGraph(const Graph& graph) {
  proto::GraphDef def;
  std::vector<Node*> all;
  for (const auto& node : graph.nodes()) all.push_back(node.get());
  for (const Node* node : graph.TopologicalOrder(all)) {
    proto::NodeDef* out = def.add_node();
    out->set_name(node->name());
    out->set_op(std::string(node->type()));
    out->set_device(node->device());
    for (const Output& input : node->inputs()) out->add_input(input.name());
    for (const Node* before : node->control_inputs()) out->add_input("^" + before->name());
    for (const auto& [name, value] : node->attrs()) ToProto(value, &(*out->mutable_attr())[name]);
  }
  for (const auto& [name, function] : CalledFunctions(graph)) ToProto(*function, def.mutable_library()->add_function());
  def.mutable_versions()->set_producer(kProducerVersion);
  return Deterministic(def);
}

StatusOr<Graph> ParseGraph(std::string_view graph_def, const GraphImport& options) {
  if (graph_def.size() > options.limits.bytes)
    return ResourceExhausted("the graph has {} bytes, more than {}", graph_def.size(), options.limits.bytes);
  if (const size_t nodes = CountNodes(graph_def); nodes > options.limits.nodes)
    return ResourceExhausted("the graph has {} nodes, more than {}", nodes, options.limits.nodes);
  proto::GraphDef def;
  const google::protobuf::LogSilencer silent;  // the Status reports damage; stderr stays silent
  if (!def.ParseFromArray(graph_def.data(), static_cast<int>(graph_def.size())))
    return DataLoss("{} bytes are no GraphDef; they may be damaged or another format", graph_def.size());
  return Build(std::move(def), options);
}

// The nesting limit of messages in the binary form (protobuf's default there).
constexpr int kMostNested = 100;

StatusOr<Graph> ParseGraphText(std::string_view text, const GraphImport& options) {
  if (text.size() > options.limits.bytes)
    return ResourceExhausted("the graph has {} bytes, more than {}", text.size(), options.limits.bytes);
  proto::GraphDef def;
  ErrorText errors;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.SetRecursionLimit(kMostNested);
  parser.AllowUnknownField(true);
  if (!parser.ParseFromString(std::string(text), &def) || !errors.text().empty())
    return DataLoss("the text is no GraphDef; {}", errors.text());
  return Build(std::move(def), options);
}

}  // namespace rivulet
