#include "engine/graph/scope.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "engine/graph/device_name.h"
#include "engine/graph/op.h"

namespace rivulet {

struct Scope::Shared {
  Graph& graph;
  Status status;
  std::unordered_map<std::string, int> taken = {};  // full name → number of requests
  std::unordered_set<std::string> scopes = {};      // requested scopes
  std::unordered_set<std::string> occupied = {};    // scopes that contain one of the first `seen` nodes
  size_t seen = 0;
  std::string function = {};
  Capture capture = nullptr;

  bool HoldsANode(const std::string& scope);
};

namespace {

// "" for code without a known caller.
std::string SourceLine(const std::source_location& where) {
  if (where.line() == 0) return "";
  std::string_view file = where.file_name();
  if (const size_t slash = file.rfind('/'); slash != std::string_view::npos) file.remove_prefix(slash + 1);
  return fmt::format("{}:{}", file, where.line());
}

bool Belongs(const Graph& graph, const Node* node) {
  const size_t id = static_cast<size_t>(node->id());
  return id < graph.nodes().size() && graph.nodes()[id].get() == node;
}

}  // namespace

// A node "conv1" and a scope "conv1/" may coexist: a variable's initializer has its nodes in the variable's scope.
bool Scope::Shared::HoldsANode(const std::string& scope) {
  for (; seen < graph.nodes().size(); ++seen) {
    const std::string& name = graph.nodes()[seen]->name();
    for (size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1))
      occupied.insert(name.substr(0, slash));
  }
  return occupied.contains(scope);
}

Scope::Scope(Graph& graph) : shared_(new Shared{graph, absl::OkStatus()}) {}

Scope::Scope(Graph& body, std::string function, Capture capture) : Scope(body) {
  shared_->function = std::move(function);
  shared_->capture = std::move(capture);
}

const std::string& Scope::function() const { return shared_->function; }

Scope Scope::SubScope(std::string_view name) const {
  Scope scope = *this;
  const std::string wanted = prefix_ + std::string(name);
  std::string unique = wanted;
  for (int count = 0; shared_->scopes.contains(unique) || shared_->HoldsANode(unique);)
    unique = fmt::format("{}_{}", wanted, ++count);
  shared_->scopes.insert(unique);
  scope.prefix_ = unique + "/";
  return scope;
}

Scope Scope::WithControl(std::vector<Node*> before) const {
  Scope scope = *this;
  for (Node* node : before)
    if (node != nullptr) scope.control_.push_back(node);
  return scope;
}

Scope Scope::WithDevice(std::string_view device) const {
  Scope scope = *this;
  const StatusOr<DeviceName> inner = ParseDeviceName(device);
  const StatusOr<DeviceName> outer = ParseDeviceName(device_);
  if (!inner.ok() || !outer.ok()) {
    Fail(inner.ok() ? outer.status() : inner.status());
    return scope;
  }
  scope.device_ = OverrideDevice(*outer, *inner).ToString();
  return scope;
}

Scope Scope::ColocateWith(const Node* node) const {
  Scope scope = *this;
  if (node == nullptr) return scope;  // status() has an earlier error
  const std::string group = "loc:@" + node->name();
  if (std::ranges::find(scope.colocation_, group) == scope.colocation_.end()) scope.colocation_.push_back(group);
  scope.device_ = node->device();
  return scope;
}

Scope Scope::At(std::source_location where) const {
  Scope scope = *this;
  scope.source_line_ = SourceLine(where);
  return scope;
}

Graph& Scope::graph() const { return shared_->graph; }
const Status& Scope::status() const { return shared_->status; }
void Scope::Fail(Status status) const {
  if (shared_->status.ok()) shared_->status = std::move(status);
}

Node* Scope::AddNode(std::string_view op, std::vector<Output> inputs, AttrMap attrs, std::string_view name,
                     std::source_location where) const {
  if (!shared_->status.ok()) return nullptr;
  const std::string line = source_line_.empty() ? SourceLine(where) : source_line_;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]) continue;
    Fail(InvalidArgument("{} '{}{}' ({}): input {} is empty; it came from an op without outputs", op, prefix_,
                         name.empty() ? op : name, line, i));
    return nullptr;
  }
  for (Output& input : inputs) {
    if (shared_->capture == nullptr || Belongs(graph(), input.node)) continue;
    const StatusOr<Output> captured = shared_->capture(input);
    if (!captured.ok()) {
      Fail(captured.status());
      return nullptr;
    }
    input = *captured;
  }
  // "_FusedConv2D" is a valid op name but not a valid node name
  if (name.empty()) name = op.substr(std::min(op.find_first_not_of('_'), op.size()));
  const std::string wanted = prefix_ + std::string(name);
  std::string unique = wanted;
  for (int& count = shared_->taken[wanted]; graph().Find(unique) != nullptr;)
    unique = fmt::format("{}_{}", wanted, ++count);
  if (!colocation_.empty()) {
    AttrValue& groups = attrs.try_emplace("_class", std::vector<std::string>()).first->second;
    if (auto* list = std::get_if<std::vector<std::string>>(&groups))
      list->insert(list->end(), colocation_.begin(), colocation_.end());
  }
  StatusOr<Node*> node = graph().AddNode(
      {std::move(unique), std::string(op), std::move(inputs), control_, std::move(attrs), line, device_});
  if (!node.ok()) {
    Fail(node.status());
    return nullptr;
  }
  return *node;
}

Output Scope::Op(std::string_view op, std::vector<Output> inputs, AttrMap attrs, std::string_view name,
                 std::source_location where) const {
  Node* node = AddNode(op, std::move(inputs), std::move(attrs), name, where);
  return node == nullptr || node->outputs().empty() ? Output{} : node->output(0);
}

Output Scope::Const(Tensor value, std::string_view name) const {
  const DType dtype = value.dtype();
  return Op("Const", {}, {{"value", std::move(value)}, {"dtype", dtype}}, name, std::source_location());
}

Output Scope::Const(float value, std::string_view name) const { return Const(Tensor::Scalar(value), name); }

Output Scope::Placeholder(std::string_view name, DType dtype, Shape shape) const {
  return Op("Placeholder", {}, {{"dtype", dtype}, {"shape", std::move(shape)}}, name, std::source_location());
}

}  // namespace rivulet
