#include "engine/models/freeze.h"

#include <algorithm>
#include <set>

#include "engine/base/join.h"
#include "engine/base/nearest.h"
#include "engine/base/wildcard.h"
#include "engine/graph/variable_name.h"
#include "engine/graphdef/graph_def.h"
#include "engine/variables/variables.h"
#include "proto/graph/graph.pb.h"

namespace rivulet {
namespace {

constexpr char kFrozen[] = "frozen", kOfBase[] = "base", kPersonal[] = "local", kTrained[] = "trainable",
               kStatistic[] = "shared";

// The names that match, of variables that `takes` takes.
StatusOr<std::set<std::string>> MatchingNames(const ModelDef& model, std::span<const std::string> patterns,
                                              bool (*takes)(const ModelVariable&)) {
  std::set<std::string> matching;
  for (const std::string& pattern : patterns) {
    std::vector<std::string> names;
    bool matched = false;
    for (const ModelVariable& variable : model.variables) {
      if (!takes(variable)) continue;
      names.push_back(variable.name);
      if (!MatchesWildcard(pattern, variable.name)) continue;
      matched = true;
      matching.insert(variable.name);
    }
    if (!matched)
      return NotFound("no variable matches '{}'.{} Variables are {}", pattern, DidYouMean(pattern, names),
                      Join(names, ", "));
  }
  return matching;
}

Status Move(ModelDef& model, const std::set<std::string>& variables, const char* segment) {
  if (!model.has_graph()) {
    for (ModelVariable& variable : model.variables) {
      if (variables.contains(variable.name)) variable.segment = segment;
    }
    return absl::OkStatus();
  }
  // Attributes of a node do not change, so the graph is made anew.
  proto::GraphDef graph;
  if (!graph.ParseFromString(SerializeGraph(model.graph))) return Internal("the model's own graph cannot be read back");
  for (auto& node : *graph.mutable_node()) {
    if (node.op() != "VarHandleOp") continue;
    const auto shared = node.attr().find("shared_name");
    const std::string& name =
        shared == node.attr().end() || shared->second.s().empty() ? node.name() : shared->second.s();
    if (variables.contains(name)) (*node.mutable_attr())[kSegmentAttr].set_s(segment);
  }
  RIVULET_ASSIGN_OR_RETURN(model.graph, ParseGraph(graph.SerializeAsString()));
  RIVULET_ASSIGN_OR_RETURN(model.variables, VariablesOf(model.graph));
  return absl::OkStatus();
}

// Whether a node gives a variable of these names a value.
bool AssignsOneOf(const Node& node, const std::set<std::string>& variables) {
  return node.type() == "AssignVariableOp" && node.input(0).node->type() == "VarHandleOp" &&
         variables.contains(std::string(VariableName(*node.input(0).node)));
}

// Takes out the nodes that assign these variables, and every node that only they need. A variable's handle stays: its
// place in the graph is its place in the layout.
Status DropFirstValues(ModelDef& model, const std::set<std::string>& variables) {
  std::vector<std::vector<const Node*>> users(model.graph.nodes().size());
  std::vector<Node*> assigning;
  for (const auto& node : model.graph.nodes()) {
    if (AssignsOneOf(*node, variables)) assigning.push_back(node.get());
    for (const Output& input : node->inputs()) users[static_cast<size_t>(input.node->id())].push_back(node.get());
    for (const Node* before : node->control_inputs()) users[static_cast<size_t>(before->id())].push_back(node.get());
  }
  std::set<std::string, std::less<>> dropped;
  const std::vector<Node*> needed = model.graph.TopologicalOrder(assigning);
  for (auto node = needed.rbegin(); node != needed.rend(); ++node) {
    const bool kept = (*node)->type() == "VarHandleOp" || (*node)->type() == "Placeholder";
    const auto& after = users[static_cast<size_t>((*node)->id())];
    if (AssignsOneOf(**node, variables) ||
        (!kept && std::ranges::all_of(after, [&](const Node* user) { return dropped.contains(user->name()); }))) {
      dropped.emplace((*node)->name());
    }
  }
  proto::GraphDef graph, left;
  if (!graph.ParseFromString(SerializeGraph(model.graph))) return Internal("the model's own graph cannot be read back");
  left = graph;
  left.clear_node();
  for (auto& node : *graph.mutable_node()) {
    if (dropped.contains(node.name())) continue;
    proto::NodeDef& copy = *left.add_node();
    copy.Swap(&node);
    // Only targets of first values wait for such an assignment.
    for (int i = copy.input_size() - 1; i >= 0; --i) {
      const std::string& input = copy.input(i);
      if (input.starts_with('^') && dropped.contains(std::string_view(input).substr(1)))
        copy.mutable_input()->DeleteSubrange(i, 1);
    }
  }
  RIVULET_ASSIGN_OR_RETURN(model.graph, ParseGraph(left.SerializeAsString()));
  return absl::OkStatus();
}

bool Trains(const ModelDef& model) {
  return std::ranges::any_of(model.variables, [](const ModelVariable& v) { return v.segment == kTrained; });
}

}  // namespace

Status Freeze(ModelDef& model, std::span<const std::string> patterns) {
  if (patterns.empty()) return absl::OkStatus();
  RIVULET_ASSIGN_OR_RETURN(const std::set<std::string> frozen,
                           MatchingNames(model, patterns, [](const ModelVariable&) { return true; }));
  RIVULET_RETURN_IF_ERROR(Move(model, frozen, kFrozen));
  std::erase_if(model.train_updates, [&](const std::string& update) {
    const Node* node = model.graph.Find(update);
    return node != nullptr && !node->inputs().empty() && node->input(0).node->type() == "VarHandleOp" &&
           frozen.contains(std::string(VariableName(*node->input(0).node)));
  });
  if (!Trains(model)) return InvalidArgument("every variable is frozen, so there is nothing to train");
  return absl::OkStatus();
}

Status MoveToBase(ModelDef& model, const std::set<std::string>& variables) {
  for (const ModelVariable& variable : model.variables) {
    if (variables.contains(variable.name) && variable.segment != kFrozen)
      return InvalidArgument("variable '{}' is {}, and a base has frozen variables alone", variable.name,
                             variable.segment);
  }
  if (model.has_graph()) {
    RIVULET_RETURN_IF_ERROR(DropFirstValues(model, variables));
  }
  return Move(model, variables, kOfBase);
}

Status MakePersonal(ModelDef& model, std::span<const std::string> patterns) {
  if (patterns.empty()) return absl::OkStatus();
  if (!model.has_graph()) {
    return InvalidArgument(
        "the model has no graph (model.arrays), and its clients train externally; leave personal variables out of the "
        "arrays");
  }
  RIVULET_ASSIGN_OR_RETURN(const std::set<std::string> personal,
                           MatchingNames(model, patterns, [](const ModelVariable& variable) {
                             return variable.segment == kTrained || variable.segment == kStatistic;
                           }));
  RIVULET_RETURN_IF_ERROR(Move(model, personal, kPersonal));
  if (!Trains(model)) return InvalidArgument("every variable is personal, so there is nothing to learn together");
  return absl::OkStatus();
}

}  // namespace rivulet
