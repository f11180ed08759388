#include "engine/graph/compose.h"

#include <algorithm>
#include <vector>

#include "engine/graph/inference.h"
#include "engine/graph/op.h"
#include "engine/graph/variable_name.h"

namespace rivulet {
namespace {

constexpr std::string_view kColocation = "loc:@";

}  // namespace

// Variables keep their names under any prefix, because the name identifies a variable: joined graphs share state by
// it. Nodes with side effects wait for control_roots; others need not, because they matter only through nodes with
// effects.
Status ImportInto(Graph& into, const Graph& from, std::string_view prefix, std::span<Node* const> control_roots,
                  std::map<std::string, std::string>* new_names,
                  const std::map<std::string, Output, std::less<>>& instead) {
  const auto renamed = [&](const std::string& name) {
    return prefix.empty() ? name : fmt::format("{}/{}", prefix, name);
  };
  for (const auto& [name, function] : from.functions()) RIVULET_RETURN_IF_ERROR(into.AddFunction(function));
  std::vector<Node*> all;
  for (const auto& node : from.nodes()) {
    if (!instead.contains(node->name()) && into.Find(renamed(node->name())) != nullptr)
      return AlreadyExists("{} cannot be copied under '{}': the graph has a node '{}' already", DescribeNode(*node),
                           prefix, renamed(node->name()));
    all.push_back(node.get());
  }
  std::vector<Output> copies(from.nodes().size());
  std::vector<bool> waits(from.nodes().size());  // by id: whether it runs after control_roots
  const auto at = [](const auto& list, const Node* node) { return list[static_cast<size_t>(node->id())]; };
  for (Node* node : from.TopologicalOrder(all)) {
    if (const auto other = instead.find(node->name()); other != instead.end()) {
      copies[static_cast<size_t>(node->id())] = other->second;
      continue;
    }
    NodeSpec spec{renamed(node->name()), std::string(node->type()), {}, {}, node->attrs(), node->source_line(),
                  node->device()};
    bool waiting = false;
    for (const Output& input : node->inputs()) {
      const Output& copy = at(copies, input.node);
      spec.inputs.push_back({copy.node, copy.port + input.port});
      waiting = waiting || at(waits, input.node);
    }
    for (const Node* before : node->control_inputs()) {
      spec.control_inputs.push_back(at(copies, before).node);
      waiting = waiting || at(waits, before);
    }
    const bool handle = node->type() == "VarHandleOp";
    if (handle) spec.attrs["shared_name"] = std::string(VariableName(*node));
    // Renames the node whose draws this one repeats.
    if (const std::string* first = node->FindAttr<std::string>("_random_of"); first != nullptr)
      spec.attrs["_random_of"] = renamed(*first);
    if (node->op().stateful && !handle && !waiting) {
      spec.control_inputs.insert(spec.control_inputs.end(), control_roots.begin(), control_roots.end());
      waiting = true;
    }
    // If colocated with a node of `from`, refers to its copy.
    if (const auto groups = spec.attrs.find("_class"); groups != spec.attrs.end()) {
      if (auto* list = std::get_if<std::vector<std::string>>(&groups->second)) {
        for (std::string& group : *list)
          if (group.starts_with(kColocation))
            group = fmt::format("{}{}", kColocation, renamed(group.substr(kColocation.size())));
      }
    }
    waits[static_cast<size_t>(node->id())] = waiting;
    RIVULET_ASSIGN_OR_RETURN(copies[static_cast<size_t>(node->id())].node, into.AddNode(std::move(spec)));
    if (new_names != nullptr) (*new_names)[node->name()] = renamed(node->name());
  }
  return absl::OkStatus();
}

StatusOr<Graph> Subgraph(const Graph& graph, std::span<Node* const> targets) {
  Graph cut;
  for (const auto& [name, function] : graph.functions()) RIVULET_RETURN_IF_ERROR(cut.AddFunction(function));
  for (const Node* node : graph.TopologicalOrder(targets)) {
    NodeSpec spec{node->name(), std::string(node->type()), {}, {}, node->attrs(), node->source_line(), node->device()};
    for (const Output& input : node->inputs()) spec.inputs.push_back({cut.Find(input.node->name()), input.port});
    for (const Node* before : node->control_inputs()) spec.control_inputs.push_back(cut.Find(before->name()));
    RIVULET_RETURN_IF_ERROR(cut.AddNode(std::move(spec)).status());
  }
  return cut;
}

}  // namespace rivulet
