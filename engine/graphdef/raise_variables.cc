#include "engine/graphdef/raise_variables.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "engine/graphdef/verify.h"

namespace rivulet {
namespace {

bool IsVariable(const proto::NodeDef& node) { return node.op() == "VariableV2" || node.op() == "Variable"; }

// How an op that changes a reference variable is called for resources, and how many of its first inputs are variables.
struct Update {
  std::string_view resource_op;
  int variables;
};
const std::map<std::string_view, Update>& Updates() {
  static const std::map<std::string_view, Update> updates = {
      {"Assign", {"AssignVariableOp", 1}},
      {"AssignAdd", {"AssignAddVariableOp", 1}},
      {"AssignSub", {"AssignSubVariableOp", 1}},
      {"ApplyGradientDescent", {"ResourceApplyGradientDescent", 1}},
      {"ApplyMomentum", {"ResourceApplyMomentum", 2}},
  };
  return updates;
}

// A reference is an edge that means a location and not a value, and every receiver may read or write at any time.
// Resources separate the two: a handle, and explicit reads and writes with control edges. So the raised graph
// needs one read for every use by reference, after the nodes that the use waited for, so that it sees the same
// value.
class VariableRaiser {
 public:
  explicit VariableRaiser(proto::GraphDef& graph) : graph_(graph) {}

  Status Run() {
    for (const proto::NodeDef& node : graph_.node()) {
      names_.insert(node.name());
      if (IsVariable(node)) variable_of_[node.name()] = node.name();
    }
    if (variable_of_.empty()) return absl::OkStatus();
    // An assignment hands its variable's reference on; so may an Identity or another assignment of it, in any order.
    // Repeated until nothing is found, because the nodes of a message stand in any order.
    for (bool found = true; found;) {
      found = false;
      for (const proto::NodeDef& node : graph_.node()) {
        if (!Updates().contains(node.op()) || variable_of_.contains(node.name()) || node.input_size() == 0) continue;
        const auto target = variable_of_.find(Producer(node.input(0)));
        if (target == variable_of_.end()) continue;
        variable_of_[node.name()] = target->second;
        found = true;
      }
    }
    const int count = graph_.node_size();  // reads are appended
    for (int i = 0; i < count; ++i) RIVULET_RETURN_IF_ERROR(Raise(*graph_.mutable_node(i)));
    for (proto::NodeDef& read : reads_) *graph_.add_node() = std::move(read);
    return absl::OkStatus();
  }

 private:
  static std::string Producer(const std::string& input) {
    const StatusOr<InputRef> ref = ParseInputRef(input);
    return ref.ok() && !ref->control && ref->port == 0 ? std::string(ref->node) : std::string();
  }

  static void RenameAttr(proto::NodeDef& node, const std::string& from, const std::string& to) {
    const auto found = node.attr().find(from);
    if (found == node.attr().end()) return;
    proto::AttrValue value = found->second;
    node.mutable_attr()->erase(from);
    (*node.mutable_attr())[to] = std::move(value);
  }

  Status Raise(proto::NodeDef& node) {
    // The name in checkpoints and in the session is the node's, unless it said otherwise.
    if (IsVariable(node)) {
      node.set_op("VarHandleOp");
      std::string& shared_name = *(*node.mutable_attr())["shared_name"].mutable_s();
      if (shared_name.empty()) shared_name = node.name();
      return absl::OkStatus();
    }
    const auto update = Updates().find(node.op());
    if (update != Updates().end()) {
      if (node.input_size() == 0 || !variable_of_.contains(node.name()))
        return InvalidArgument("{} '{}': its first input is no variable", node.op(), node.name());
      for (int i = 0; i < std::min(update->second.variables, node.input_size()); ++i)
        RIVULET_RETURN_IF_ERROR(UseHandle(node, i));
      const bool assignment = node.op().starts_with("Assign");
      node.set_op(std::string(update->second.resource_op));
      // These speak of references: of locks, of shapes that may change, of colocation with the reference.
      node.mutable_attr()->erase("use_locking");
      node.mutable_attr()->erase("validate_shape");
      node.mutable_attr()->erase("_class");
      if (assignment) RenameAttr(node, "T", "dtype");
      return ReadOthers(node, update->second.variables);
    }
    if (node.op() == "Identity" && node.input_size() > 0 && IsRaised(node.input(0))) {
      RIVULET_RETURN_IF_ERROR(UseHandle(node, 0));
      node.set_op("ReadVariableOp");
      node.mutable_attr()->erase("_class");
      RenameAttr(node, "T", "dtype");
      return absl::OkStatus();
    }
    if (node.op() == "IsVariableInitialized" && node.input_size() > 0 && IsRaised(node.input(0))) {
      RIVULET_RETURN_IF_ERROR(UseHandle(node, 0));
      node.set_op("VarIsInitializedOp");
      node.mutable_attr()->erase("_class");
      node.mutable_attr()->erase("dtype");
      return absl::OkStatus();
    }
    return ReadOthers(node, 0);
  }

  bool IsRaised(const std::string& input) const { return variable_of_.contains(Producer(input)); }

  // Input i becomes the handle; where it was an assignment's result, the node waits for the assignment.
  Status UseHandle(proto::NodeDef& node, int i) {
    const std::string producer = Producer(node.input(i));
    const auto variable = variable_of_.find(producer);
    if (variable == variable_of_.end())
      return InvalidArgument("{} '{}': its input {} is no variable", node.op(), node.name(), i);
    node.set_input(i, variable->second);
    if (producer != variable->second) node.add_input("^" + producer);
    return absl::OkStatus();
  }

  // A read per consumer and not per variable: two consumers may stand before and after an assignment, and one shared
  // read could only be right for one of them.
  Status ReadOthers(proto::NodeDef& node, int first) {
    for (int i = first; i < node.input_size(); ++i) {
      if (!IsRaised(node.input(i))) continue;
      proto::NodeDef read;
      std::string name = node.name() + "/read";
      for (int n = 1; !names_.insert(name).second; ++n) name = fmt::format("{}/read_{}", node.name(), n);
      read.set_name(name);
      read.set_op("ReadVariableOp");
      read.add_input(node.input(i));
      for (const std::string& input : node.input())
        if (input.starts_with('^')) read.add_input(input);
      RIVULET_RETURN_IF_ERROR(UseHandle(read, 0));
      for (const proto::NodeDef& each : graph_.node())
        if (each.name() == read.input(0) && each.attr().count("dtype"))
          (*read.mutable_attr())["dtype"] = each.attr().at("dtype");
      node.set_input(i, name);
      reads_.push_back(std::move(read));
    }
    return absl::OkStatus();
  }

  proto::GraphDef& graph_;
  std::unordered_set<std::string> names_;
  std::map<std::string, std::string> variable_of_;  // node whose output refers to a variable → the variable's node
  std::vector<proto::NodeDef> reads_;
};

}  // namespace

Status RaiseReferenceVariables(proto::GraphDef& graph) { return VariableRaiser(graph).Run(); }

}  // namespace rivulet
