#include "engine/graph/graph.h"

#include <algorithm>
#include <charconv>
#include <queue>

#include "engine/base/nearest.h"
#include "engine/graph/function.h"
#include "engine/graph/inference.h"
#include "engine/graph/node_error.h"
#include "engine/graph/op.h"
#include "engine/graph/variable_name.h"

namespace rivulet {
namespace {

// Building a model looks up each variable's handle, whose name may differ from the variable's. So handles are also
// indexed among the nodes by a second key, which no node's name can equal: a separate index would change the size of
// Graph, which libraries of ops are compiled with.
std::string HandleKey(std::string_view variable) { return std::string(1, '\0').append(variable); }

bool IsHandle(const Node& node) { return node.type() == "VarHandleOp"; }

// As in TensorFlow: letters, digits and "_.\/>-", not starting with one of "_\/>-".
bool ValidName(std::string_view name) {
  const auto alphanumeric = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  if (name.empty() || !(alphanumeric(name.front()) || name.front() == '.')) return false;
  return std::ranges::all_of(
      name, [&](char c) { return alphanumeric(c) || std::string_view("_.\\/>-").find(c) != std::string_view::npos; });
}

const Shape& BuiltShape(Output output) { return output.shape(); }

}  // namespace

DType Output::dtype() const { return node->outputs()[static_cast<size_t>(port)].dtype; }
const Shape& Output::shape() const { return node->outputs()[static_cast<size_t>(port)].shape; }
std::string Output::name() const { return port == 0 ? node->name() : fmt::format("{}:{}", node->name(), port); }

std::string_view Node::type() const { return op_->name; }

Graph::Graph() = default;
Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;

bool Graph::Owns(const Node* node) const {
  return node != nullptr && node->id() >= 0 && static_cast<size_t>(node->id()) < nodes_.size() &&
         nodes_[static_cast<size_t>(node->id())].get() == node;
}

// The only way to add a node, so that every Graph is checked: names are unique, inputs exist, attributes are complete,
// types and shapes fit. All later code relies on this and does not check again. Every pass and every copy goes through
// here, so it works in one step per node and never traverses the graph.
StatusOr<Node*> Graph::AddNode(NodeSpec spec) {
  if (!ValidName(spec.name))
    return InvalidArgument("'{}' is no valid name for a {} node; use letters, digits, '_', '-', '.' and '/'", spec.name,
                           spec.op);
  const std::string where = DescribeNode(spec.op, spec.name, spec.source_line);
  if (by_name_.contains(spec.name)) return AlreadyExists("{}: the graph has a node of this name already", where);
  const StatusOr<const OpDef*> op = OpRegistry::Global().Get(spec.op);
  if (!op.ok()) return Annotate(op.status(), where);

  std::vector<DType> input_types;
  for (const Output& input : spec.inputs) {
    if (!Owns(input.node)) return InvalidArgument("{}: input {} is not of this graph", where, input_types.size());
    if (input.port < 0 || static_cast<size_t>(input.port) >= input.node->outputs().size())
      return OutOfRange("{}: input {} is output {} of '{}', which has {}", where, input_types.size(), input.port,
                        input.node->name(), input.node->outputs().size());
    input_types.push_back(input.dtype());
  }
  for (const Node* before : spec.control_inputs)
    if (!Owns(before)) return InvalidArgument("{}: a control input is not of this graph", where);

  // Resolving adds attributes; errors are explained with the
  // attributes that the user stated, not the inferred ones.
  std::vector<std::string> given;
  for (const auto& [name, value] : spec.attrs) given.push_back(name);
  if (const Status resolved = ResolveAttributes(**op, where, input_types, spec.attrs); !resolved.ok()) {
    std::erase_if(spec.attrs, [&](const auto& attr) { return std::ranges::find(given, attr.first) == given.end(); });
    return ExplainTypeError(**op, where, spec.attrs, spec.inputs, resolved);
  }
  RIVULET_ASSIGN_OR_RETURN(
      std::vector<TensorSpec> outputs,
      InferOutputs(InferenceNode{**op, spec.name, where, spec.attrs, spec.inputs, this}, ShapeLookup(BuiltShape)));

  auto node = std::make_unique<Node>();
  node->id_ = static_cast<int>(nodes_.size());
  node->name_ = std::move(spec.name);
  node->op_ = *op;
  node->inputs_ = std::move(spec.inputs);
  for (Node* before : spec.control_inputs)
    if (std::ranges::find(node->control_inputs_, before) == node->control_inputs_.end())
      node->control_inputs_.push_back(before);
  node->outputs_ = std::move(outputs);
  node->attrs_ = std::move(spec.attrs);
  node->source_line_ = std::move(spec.source_line);
  node->device_ = std::move(spec.device);
  nodes_.push_back(std::move(node));
  Node* added = nodes_.back().get();
  by_name_.emplace(added->name(), added);
  if (IsHandle(*added)) by_name_.emplace(HandleKey(VariableName(*added)), added);
  return added;
}

Node* Graph::Find(std::string_view name) const {
  const auto found = by_name_.find(std::string(name));
  return found == by_name_.end() ? nullptr : found->second;
}

Node* FindHandle(const Graph& graph, std::string_view variable) { return graph.Find(HandleKey(variable)); }

StatusOr<Output> Graph::FindOutput(std::string_view tensor_name) const {
  std::string_view node_name = tensor_name;
  int port = 0;
  if (const size_t colon = tensor_name.rfind(':'); colon != std::string_view::npos) {
    node_name = tensor_name.substr(0, colon);
    const std::string_view digits = tensor_name.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (error != std::errc() || end != digits.data() + digits.size() || port < 0)
      return InvalidArgument("'{}' is no tensor name; write 'node' or 'node:port'", tensor_name);
  }
  Node* node = Find(node_name);
  if (node == nullptr) {
    std::vector<std::string> names;
    for (const auto& each : nodes_) names.push_back(each->name());
    return NotFound("the graph has no node '{}'.{}", node_name, DidYouMean(node_name, names));
  }
  if (static_cast<size_t>(port) >= node->outputs().size())
    return OutOfRange("'{}': {} has {} output{}", tensor_name, DescribeNode(*node), node->outputs().size(),
                      node->outputs().size() == 1 ? "" : "s");
  return Output{node, port};
}

// Searches the graph. Storing consumers would burden every graph for a rare request; passes, which ask often, keep
// their own index (passes/graph_editor.h).
std::vector<Node*> Graph::Consumers(Output output) const {
  std::vector<Node*> consumers;
  for (const auto& node : nodes_)
    if (std::ranges::find(node->inputs(), output) != node->inputs().end()) consumers.push_back(node.get());
  return consumers;
}

// While every input was created before its node, ids answer without a search; the first edge that breaks this makes
// later questions need one.
bool Graph::Reaches(const Node* from, const Node* to) const {
  if (ordered_ && from->id() < to->id()) return false;
  std::vector<bool> seen(nodes_.size());
  std::vector<const Node*> stack = {from};
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    if (node == to) return true;
    if (seen[static_cast<size_t>(node->id())]) continue;
    seen[static_cast<size_t>(node->id())] = true;
    for (const Output& input : node->inputs()) stack.push_back(input.node);
    for (const Node* before : node->control_inputs()) stack.push_back(before);
  }
  return false;
}

// Only by a tensor of the same type and a compatible shape: shapes after the node were inferred from the old input, and
// are not inferred again.
Status Graph::ReplaceInput(Node* node, int input, Output replacement) {
  if (!Owns(node) || !Owns(replacement.node)) return InvalidArgument("ReplaceInput: a node is not of this graph");
  const std::string where = DescribeNode(*node);
  if (input < 0 || static_cast<size_t>(input) >= node->inputs().size())
    return OutOfRange("{}: has no input {}", where, input);
  if (replacement.port < 0 || static_cast<size_t>(replacement.port) >= replacement.node->outputs().size())
    return OutOfRange("{}: '{}' has no output {}", where, replacement.node->name(), replacement.port);
  const Output old = node->input(input);
  if (old.dtype() != replacement.dtype())
    return InvalidArgument("{}: input {} is {}, but '{}' is {}", where, input, Name(old.dtype()), replacement.name(),
                           Name(replacement.dtype()));
  if (!Shape::Compatible(old.shape(), replacement.shape()))
    return InvalidArgument("{}: input {} has shape {}, but '{}' has {}", where, input, old.shape().ToString(),
                           replacement.name(), replacement.shape().ToString());
  if (Reaches(replacement.node, node))
    return InvalidArgument("{}: '{}' depends on this node and cannot be its input {}", where, replacement.name(),
                           input);
  node->inputs_[static_cast<size_t>(input)] = replacement;
  ordered_ = ordered_ && replacement.node->id() < node->id();
  return absl::OkStatus();
}

Status Graph::AddControlInput(Node* node, Node* before) {
  if (!Owns(node) || !Owns(before)) return InvalidArgument("AddControlInput: a node is not of this graph");
  if (std::ranges::find(node->control_inputs_, before) != node->control_inputs_.end()) return absl::OkStatus();
  if (Reaches(before, node))
    return InvalidArgument("{}: '{}' depends on this node and cannot run before it", DescribeNode(*node),
                           before->name());
  node->control_inputs_.push_back(before);
  ordered_ = ordered_ && before->id() < node->id();
  return absl::OkStatus();
}

std::vector<Node*> Graph::TopologicalOrder(std::span<Node* const> targets) const {
  // Collects the nodes that the targets need, then uses Kahn's algorithm with the oldest ready node first: one order
  // per graph, for any order of the targets.
  std::vector<bool> needed(nodes_.size());
  std::vector<Node*> stack(targets.begin(), targets.end());
  const auto for_each_input = [](const Node* node, const auto& visit) {
    for (const Output& input : node->inputs()) visit(input.node);
    for (Node* before : node->control_inputs()) visit(before);
  };
  size_t count = 0;
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    if (needed[static_cast<size_t>(node->id())]) continue;
    needed[static_cast<size_t>(node->id())] = true;
    ++count;
    for_each_input(node, [&](Node* input) { stack.push_back(input); });
  }
  std::vector<int> waiting(nodes_.size());
  std::vector<std::vector<int>> users(nodes_.size());
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (const auto& node : nodes_) {
    const size_t id = static_cast<size_t>(node->id());
    if (!needed[id]) continue;
    for_each_input(node.get(), [&](const Node* input) {
      ++waiting[id];
      users[static_cast<size_t>(input->id())].push_back(node->id());
    });
    if (waiting[id] == 0) ready.push(node->id());
  }
  std::vector<Node*> order;
  while (!ready.empty()) {
    const int id = ready.top();
    ready.pop();
    order.push_back(nodes_[static_cast<size_t>(id)].get());
    for (int user : users[static_cast<size_t>(id)])
      if (--waiting[static_cast<size_t>(user)] == 0) ready.push(user);
  }
  RIVULET_CHECK(order.size() == count, "a graph has a cycle, which AddNode, ReplaceInput and AddControlInput exclude");
  return order;
}

// Copies nodes without checking them again; a client clones its model for each plan.
Graph Graph::Clone() const {
  Graph copy;
  copy.ordered_ = ordered_;
  copy.functions_ = functions_;
  for (const auto& node : nodes_) {
    copy.nodes_.push_back(std::make_unique<Node>(*node));
    Node* const copied = copy.nodes_.back().get();
    copy.by_name_.emplace(copied->name(), copied);
    if (IsHandle(*copied)) copy.by_name_.emplace(HandleKey(VariableName(*copied)), copied);
  }
  const auto mine = [&](const Node* node) { return copy.nodes_[static_cast<size_t>(node->id())].get(); };
  for (auto& node : copy.nodes_) {
    for (Output& input : node->inputs_) input.node = mine(input.node);
    for (Node*& before : node->control_inputs_) before = mine(before);
  }
  return copy;
}

// A body contains the functions that it calls, which must be the graph's functions of these names: two of one name
// would make a call ambiguous.
Status Graph::AddFunction(std::shared_ptr<const Function> function) {
  RIVULET_CHECK(function != nullptr, "no function");
  const auto taken = [&](const std::string& name, const Function* other) {
    const auto found = functions_.find(name);
    return found != functions_.end() && found->second.get() != other;
  };
  if (taken(function->name, function.get()))
    return AlreadyExists("the graph has another function '{}' already", function->name);
  for (const auto& [name, called] : function->body->functions())
    if (taken(name, called.get()))
      return AlreadyExists("function '{}' calls '{}', but the graph has another function of this name", function->name,
                           name);
  for (const auto& [name, called] : function->body->functions()) functions_.emplace(name, called);
  const std::string name = function->name;
  functions_.emplace(name, std::move(function));
  return absl::OkStatus();
}

const Function* Graph::FindFunction(std::string_view name) const {
  const auto found = functions_.find(std::string(name));
  return found == functions_.end() ? nullptr : found->second.get();
}

}  // namespace rivulet
