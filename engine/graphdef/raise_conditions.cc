// tf.cond and tf.switch_case as TensorFlow lowers them, Switches and Merges, raised to If and Case.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "engine/graphdef/control_flow_raiser.h"
#include "engine/graphdef/verify.h"

namespace rivulet {
namespace {

constexpr size_t kMostPredicates = 64;  // that one node depends on; real graphs have fewer

class ConditionRaiser {
 public:
  ConditionRaiser(ControlFlowNodes& nodes, ControlFlowBodies& bodies) : nodes_(nodes), bodies_(bodies) {}

  // One traversal in topological order determines the branch of each predicate that every node is in. Switches add to
  // the set of their consumers; the Merge of two opposite branches removes it again. A node that would need both
  // branches of one predicate can never have run.
  StatusOr<std::map<std::string, ControlFlowBranches>> Run() {
    bool any = false;
    for (int i = 0; i < nodes_.size(); ++i) any = any || IsSwitch(nodes_.at(i).op()) || nodes_.at(i).op() == "Merge";
    if (!any) return std::move(branches_);
    RIVULET_ASSIGN_OR_RETURN(const std::vector<int> order, nodes_.Order());
    std::map<std::tuple<std::string, std::string, std::string>, Group> groups;
    for (const int i : order) {
      const proto::NodeDef& node = nodes_.at(i);
      RIVULET_ASSIGN_OR_RETURN(const std::vector<NodeRef> inputs, nodes_.Inputs(i));
      std::string resolved;
      const bool merge = node.op() == "Merge";
      RIVULET_ASSIGN_OR_RETURN(ControlFlowBranches all,
                               merge ? BranchesAfter(node, inputs, &resolved) : BranchesOfAll(node, inputs));
      if (all.size() > kMostPredicates)
        return Unimplemented("{} depends on more than {} conditions at once", DescribeMessage(node), kMostPredicates);
      if (merge) {
        // tf.cond puts its Merges into one name scope, and every cond has its own.
        const std::string scope = node.name().substr(0, node.name().rfind('/') + 1);
        std::string around;
        for (const auto& [predicate, branch] : all) around += fmt::format("{}={};", predicate, branch);
        Group& group = groups[{scope, resolved, around}];
        group.predicate = resolved;
        group.around = all;
        group.merges.push_back(i);
      }
      branches_[node.name()] = std::move(all);
    }
    // A condition within a branch is then one node when the branch around it is extracted.
    std::vector<Group*> inner_first;
    for (auto& [key, group] : groups) inner_first.push_back(&group);
    std::ranges::stable_sort(inner_first, std::greater<>(), [](const Group* group) { return group->around.size(); });
    RIVULET_RETURN_IF_ERROR(nodes_.CheckCost(inner_first.size(), "conditions"));
    for (int i = 0; i < nodes_.size(); ++i)
      for (const std::string& input : nodes_.at(i).input())
        if (input.ends_with(":1")) second_outputs_.try_emplace(input.substr(0, input.size() - 2), nodes_.at(i).name());
    for (const Group* group : inner_first) RIVULET_RETURN_IF_ERROR(RaiseCondition(*group));
    return std::move(branches_);
  }

 private:
  // All Merges of one tf.cond become one If. If each became its own, the branches would run once per result, and with
  // effects more often than they should.
  struct Group {
    std::string predicate;
    ControlFlowBranches around;
    std::vector<int> merges;
  };

  // A predicate by the tensor that it is, seen through Identity.
  // tf.cond passes its predicate through an Identity for each branch, so that one condition shows as several names.
  StatusOr<std::string> Predicate(const NodeRef& predicate) const {
    NodeRef at = predicate;
    for (int steps = 0; steps < nodes_.size(); ++steps) {
      const int i = nodes_.Find(at.node);
      if (nodes_.at(i).op() != "Identity") break;
      RIVULET_ASSIGN_OR_RETURN(const std::vector<NodeRef> inputs, nodes_.Inputs(i));
      if (inputs.empty()) break;
      at = inputs[0];
    }
    return at.ToString();
  }

  // Returns the branches that `ref` depends on: those of its node, and its own branch if the node is a Switch.
  StatusOr<ControlFlowBranches> BranchesOf(const NodeRef& ref) {
    const int i = nodes_.Find(ref.node);
    ControlFlowBranches branches = branches_[ref.node];
    if (ref.control || !IsSwitch(nodes_.at(i).op())) return branches;
    RIVULET_ASSIGN_OR_RETURN(const std::vector<NodeRef> inputs, nodes_.Inputs(i));
    if (inputs.size() < 2)
      return InvalidArgument("{} has {} inputs, not 2", DescribeMessage(nodes_.at(i)), inputs.size());
    RIVULET_ASSIGN_OR_RETURN(const std::string predicate, Predicate(inputs[1]));
    branches[predicate] = ref.port;
    arms_.try_emplace(predicate, ArmsOf(nodes_.at(i)));
    return branches;
  }

  // How many ways a switch has; 0 for a Switch, which has two and asks a bool.
  static int ArmsOf(const proto::NodeDef& node) {
    if (node.op() == "Switch") return 0;
    const auto arms = node.attr().find("num_outs");
    return arms == node.attr().end() ? 0 : static_cast<int>(arms->second.i());
  }

  // Where a node is that needs all of its inputs.
  StatusOr<ControlFlowBranches> BranchesOfAll(const proto::NodeDef& node, const std::vector<NodeRef>& inputs) {
    ControlFlowBranches all;
    for (const NodeRef& input : inputs) {
      RIVULET_ASSIGN_OR_RETURN(const ControlFlowBranches own, BranchesOf(input));
      for (const auto& [predicate, branch] : own) {
        const auto [known, inserted] = all.try_emplace(predicate, branch);
        if (!inserted && known->second != branch)
          return Unimplemented("{} needs both branches of '{}', so it never runs", DescribeMessage(node), predicate);
      }
    }
    return all;
  }

  // Where a Merge is, once `resolved`, the predicate that tells its inputs apart, is behind it.
  StatusOr<ControlFlowBranches> BranchesAfter(const proto::NodeDef& merge, const std::vector<NodeRef>& inputs,
                                              std::string* resolved) {
    std::vector<ControlFlowBranches> of_inputs;
    for (const NodeRef& input : inputs) {
      if (input.control) break;
      RIVULET_ASSIGN_OR_RETURN(ControlFlowBranches own, BranchesOf(input));
      of_inputs.push_back(std::move(own));
    }
    if (of_inputs.size() < 2)
      return Unimplemented("{} merges {} tensors; a condition has two branches or more", DescribeMessage(merge),
                           of_inputs.size());
    ControlFlowBranches all = of_inputs[0];
    for (const auto& [predicate, branch] : all) {
      if (!TellsApart(predicate, of_inputs)) continue;
      if (!resolved->empty())
        return Unimplemented("{} merges tensors that both '{}' and '{}' switch; only one condition may",
                             DescribeMessage(merge), *resolved, predicate);
      *resolved = predicate;
    }
    if (resolved->empty())
      return Unimplemented("{} merges '{}' and '{}', which no Switch of one predicate separates",
                           DescribeMessage(merge), merge.input(0), merge.input(1));
    for (const ControlFlowBranches& other : of_inputs) all.insert(other.begin(), other.end());
    all.erase(*resolved);
    return all;
  }

  // Whether each branch of `predicate` is that of one of the inputs.
  bool TellsApart(const std::string& predicate, const std::vector<ControlFlowBranches>& of_inputs) const {
    const auto arms = arms_.find(predicate);
    const size_t wanted = arms == arms_.end() || arms->second == 0 ? 2 : static_cast<size_t>(arms->second);
    std::set<int> branches;
    for (const ControlFlowBranches& own : of_inputs) {
      const auto branch = own.find(predicate);
      if (branch != own.end()) branches.insert(branch->second);
    }
    return of_inputs.size() == wanted && branches.size() == wanted;
  }

  Status RaiseCondition(const Group& group) {
    Captures captures;
    std::vector<DType> result_types;
    for (const int merge : group.merges) {
      RIVULET_ASSIGN_OR_RETURN(const DType dtype, nodes_.TypeOf({nodes_.at(merge).name(), 0}));
      result_types.push_back(dtype);
    }
    std::vector<ControlFlowBody> bodies;
    const int arms = arms_.at(group.predicate);
    // The output 1 of a Switch is the taken one, the branch "then".
    for (int i = 0; i < std::max(arms, 2); ++i) {
      RIVULET_ASSIGN_OR_RETURN(bodies.emplace_back(), ExtractBranch(group, arms == 0 ? 1 - i : i, captures));
    }
    RIVULET_ASSIGN_OR_RETURN(const std::string name, AddNode(group, bodies, result_types, captures));
    // The new node takes its place in the branches around it, as the Merges had.
    branches_[name] = group.around;
    for (size_t i = 0; i < group.merges.size(); ++i) {
      proto::NodeDef& merge = nodes_.at(group.merges[i]);
      // Which input a Merge took has no counterpart in an If; that it is asked at all is rare.
      if (const auto asks = second_outputs_.find(merge.name()); asks != second_outputs_.end())
        return Unimplemented("{}: '{}' uses the index of its taken input, which is not supported",
                             DescribeMessage(merge), asks->second);
      merge.set_op("Identity");
      merge.clear_attr();
      (*merge.mutable_attr())["T"].set_type(static_cast<proto::DataType>(result_types[i]));
      merge.clear_input();
      merge.add_input(NodeRef{name, static_cast<int>(i), false}.ToString());
    }
    return absl::OkStatus();
  }

  // The Merges' inputs from one branch, as a body.
  StatusOr<ControlFlowBody> ExtractBranch(const Group& group, int branch, Captures& captures) {
    const std::string& predicate = group.predicate;
    const auto inside = [&](int i) {
      const auto found = branches_.find(nodes_.at(i).name());
      return found != branches_.end() && found->second.contains(predicate);
    };
    const auto capture = [&](const NodeRef& ref) -> StatusOr<std::string> {
      const int i = nodes_.Find(ref.node);
      if (inside(i)) return std::string();
      RIVULET_ASSIGN_OR_RETURN(const ControlFlowBranches own, BranchesOf(ref));
      if (!own.contains(predicate)) return CaptureRef(captures.Add(ref));
      RIVULET_ASSIGN_OR_RETURN(const std::vector<NodeRef> inputs, nodes_.Inputs(i));
      for (const NodeRef& input : inputs)
        if (input.control) captures.controls.insert(input.node);
      return CaptureRef(captures.Add(inputs[0]));  // of a Switch
    };
    std::vector<NodeRef> roots;
    for (const int merge : group.merges) {
      RIVULET_ASSIGN_OR_RETURN(const std::vector<NodeRef> inputs, nodes_.Inputs(merge));
      for (const NodeRef& input : inputs) {
        if (input.control) continue;
        RIVULET_ASSIGN_OR_RETURN(const ControlFlowBranches own, BranchesOf(input));
        if (own.at(predicate) != branch) continue;
        roots.push_back(input);
        break;
      }
    }
    return bodies_.Extract(roots, {.inside = inside, .capture = capture, .is_boundary = [](int) { return false; }},
                           captures);
  }

  // The condition as one node, by its name: its outputs are the Merges'.
  StatusOr<std::string> AddNode(const Group& group, std::vector<ControlFlowBody>& bodies,
                                const std::vector<DType>& result_types, const Captures& captures) {
    const std::string first_merge = nodes_.at(group.merges[0]).name();
    const size_t slash = first_merge.rfind('/');
    const std::string scope = slash == std::string::npos ? first_merge : first_merge.substr(0, slash);
    const bool is_case = arms_.at(group.predicate) > 0;
    std::vector<DType> types;
    for (const NodeRef& source : captures.sources) {
      RIVULET_ASSIGN_OR_RETURN(const DType dtype, nodes_.TypeOf(source));
      types.push_back(dtype);
    }
    std::vector<std::string> names;
    bool has_state = false;
    for (size_t i = 0; i < bodies.size(); ++i) {
      const std::string role = is_case ? fmt::format("_branch{}", i) : i == 0 ? "_true" : "_false";
      RIVULET_ASSIGN_OR_RETURN(names.emplace_back(),
                               bodies_.AddFunction(scope + role, bodies[i], types, 0, result_types));
      has_state = has_state || bodies_.is_stateful(names.back());
    }
    RIVULET_ASSIGN_OR_RETURN(const NodeRef chooses, ParseNodeRef(group.predicate));
    RIVULET_ASSIGN_OR_RETURN(const DType chooses_type, nodes_.TypeOf(chooses));
    const std::string op = is_case ? "Case" : "If";
    proto::NodeDef& node = nodes_.Add(scope + "/" + op, has_state ? op : "Stateless" + op);
    node.add_input(group.predicate);
    for (const NodeRef& source : captures.sources) node.add_input(source.ToString());
    for (const std::string& control : captures.controls) node.add_input("^" + control);
    SetTypes(node, "Tin", types);
    SetTypes(node, "Tout", result_types);
    if (is_case) {
      for (const std::string& name : names)
        (*node.mutable_attr())["branches"].mutable_list()->add_func()->set_name(name);
    } else {
      (*node.mutable_attr())["Tcond"].set_type(static_cast<proto::DataType>(chooses_type));
      (*node.mutable_attr())["then_branch"].mutable_func()->set_name(names[0]);
      (*node.mutable_attr())["else_branch"].mutable_func()->set_name(names[1]);
    }
    return node.name();
  }

  ControlFlowNodes& nodes_;
  ControlFlowBodies& bodies_;
  std::map<std::string, ControlFlowBranches> branches_;  // by node
  std::map<std::string, int> arms_;                      // by predicate: of its _SwitchN, or 0 of a Switch
  std::map<std::string, std::string> second_outputs_;    // whose second output is used, and by whom
};

}  // namespace

StatusOr<std::map<std::string, ControlFlowBranches>> RaiseConditions(ControlFlowNodes& nodes,
                                                                     ControlFlowBodies& bodies) {
  return ConditionRaiser(nodes, bodies).Run();
}

}  // namespace rivulet
