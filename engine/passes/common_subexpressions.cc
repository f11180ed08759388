// Merges equal nodes: nodes of one op, with equal attributes and inputs, compute the same, so the first serves all.
// Random ops and side effects are never equal. Reads of a variable are, if nothing writes a variable between them.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "engine/graph/function_call.h"
#include "engine/passes/pass.h"
#include "engine/program/structural_ops.h"

namespace rivulet {
namespace {

// Larger constants are equal only if they share memory: comparing them costs more than it saves. Equal large constants
// nearly always are copies of one node, and then share it.
constexpr size_t kComparedBytes = 4096;

// The node as bytes: equal keys mean equal values.
class Key {
 public:
  void Add(std::string_view text) {
    Add(static_cast<uint64_t>(text.size()));
    bytes_.append(text);
  }
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void Add(const T& value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void Add(const Shape& shape) {
    Add(shape.known_rank());
    Add(static_cast<uint64_t>(shape.dims().size()));
    for (const int64_t dim : shape.dims()) Add(dim);
  }
  void Add(const Tensor& tensor) {
    Add(tensor.dtype());
    Add(tensor.shape());
    if (tensor.empty()) return;
    if (tensor.bytes() > kComparedBytes) {
      Add(tensor.data());
    } else {
      bytes_.append(reinterpret_cast<const char*>(tensor.data()), tensor.bytes());
    }
  }
  void Add(const AttrValue& attr) {
    Add(attr.index());
    std::visit(
        [&](const auto& value) {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, std::string>) {
            Add(std::string_view(value));
          } else if constexpr (std::is_same_v<T, FunctionRef>) {
            AddElement(value);
          } else if constexpr (requires {
                                 typename T::value_type;
                                 value.begin();
                               }) {
            Add(static_cast<uint64_t>(value.size()));
            for (const auto& each : value) AddElement(each);
          } else {
            Add(value);
          }
        },
        attr);
  }
  std::string Take() && { return std::move(bytes_); }

 private:
  void AddElement(const std::string& each) { Add(std::string_view(each)); }
  void AddElement(const Shape& each) { Add(each); }
  void AddElement(const FunctionRef& each) { Add(std::string_view(each.name)); }
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void AddElement(const T& each) { Add(each); }
  void AddElement(std::vector<bool>::const_reference each) { Add(static_cast<bool>(each)); }

  std::string bytes_;
};

bool WritesVariables(const GraphEditor& graph, const EditNode& node) {
  if (RunsFunctions(node.type())) {
    const auto find = [&](std::string_view name) { return graph.FindFunction(name); };
    const std::vector<bool> writes = EffectsOfCall(node.type(), node.attrs, node.inputs.size(), find).writes;
    return std::find(writes.begin(), writes.end(), true) != writes.end();
  }
  if (!node.op->stateful || OnlyReadsVariables(node.type())) return false;
  for (const Edge& input : node.inputs)
    if (input.dtype() == DType::kResource) return true;
  return false;
}

// The key contains everything that matters, including device and control inputs: nodes that wait for different nodes
// may run at different times. Inputs are represented by node index, which is enough because producers are merged before
// their users.
std::string KeyOf(const EditNode& node, int writes) {
  Key key;
  key.Add(std::string_view(node.type()));
  key.Add(std::string_view(node.device));
  for (const auto& [name, value] : node.attrs) {
    key.Add(std::string_view(name));
    key.Add(value);
  }
  for (const Edge& input : node.inputs) {
    key.Add(input.node->index);
    key.Add(input.port);
  }
  key.Add(-1);
  for (const EditNode* before : node.control_inputs) key.Add(before->index);
  if (node.type() == "VarHandleOp") {
    const std::string* shared = node.FindAttr<std::string>("shared_name");
    key.Add(std::string_view(shared == nullptr || shared->empty() ? node.name : *shared));
  }
  // The number of earlier writes represents the time of a read. It counts writes of all variables, because memory may
  // overlap under other names; two reads with any write between them stay separate.
  bool reads = node.type() == "ReadVariableOp";
  for (const Edge& input : node.inputs)
    reads = reads || (RunsFunctions(node.type()) && input.dtype() == DType::kResource);
  if (reads) key.Add(writes);
  return std::move(key).Take();
}

bool MayMerge(const EditNode& node) {
  if (node.fed || node.outputs.size() != 1) return false;
  const std::string_view op = node.type();
  if (op == "Placeholder") return false;
  return !node.op->stateful || op == "VarHandleOp" || op == "ReadVariableOp";
}

}  // namespace

// One pass in execution order: the first of equal nodes serves all, and it runs before every user of the others.
Status MergeCommonSubexpressions(GraphEditor& graph, PassContext& context) {
  std::unordered_map<std::string, EditNode*> first;
  int writes = 0;
  for (EditNode* node : graph.Nodes()) {
    if (node->removed) continue;
    writes += WritesVariables(graph, *node);
    if (!MayMerge(*node)) continue;
    const auto [known, inserted] = first.try_emplace(KeyOf(*node, writes), node);
    if (inserted) continue;
    if (node->pinned && node->type() == "Identity") continue;  // it would become an Identity again
    const std::string line = fmt::format("{}: is '{}'", node->name, known->second->name);
    if (graph.Replace(*node, known->second->output())) context.log.push_back(line);
  }
  return absl::OkStatus();
}

}  // namespace rivulet
