#include "engine/graphdef/raise_stacks.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/graphdef/control_flow_frames.h"

namespace rivulet {
namespace {

bool IsOp(const proto::NodeDef& node, std::string_view op) {
  return node.op() == op || node.op() == fmt::format("{}V2", op);
}

class StackRaiser {
 public:
  explicit StackRaiser(proto::GraphDef& graph) : nodes_(graph), frames_(nodes_) {}

  // A stack has an effect and a list has none, so the pushed values must reach the pops as data. Each loop around a
  // push or a pop gets the list as a loop variable, and the loop of the pops begins with the final list of the loop of
  // the pushes.
  Status Run() {
    bool any = false;
    const int count = nodes_.size();
    for (int i = 0; i < count; ++i) {
      proto::NodeDef& node = nodes_.at(i);
      if (node.op() == "ControlTrigger") {  // waits for its inputs, also for those that never have a value
        node.set_op("NoOp");
        node.clear_attr();
        WaitForConditions(node);
      }
      any = any || IsOp(node, "Stack");
    }
    if (!any) return absl::OkStatus();
    RIVULET_RETURN_IF_ERROR(frames_.Find());
    RIVULET_RETURN_IF_ERROR(FindConditions());
    for (int i = 0; i < count; ++i) {
      const proto::NodeDef& node = nodes_.at(i);
      if (IsOp(node, "StackPush") || IsOp(node, "StackPop")) RIVULET_RETURN_IF_ERROR(AddUse(i));
    }
    for (auto& [stack, uses] : uses_) RIVULET_RETURN_IF_ERROR(RaiseStack(stack, uses));
    for (int i = 0; i < count; ++i)
      if (IsOp(nodes_.at(i), "StackClose")) BecomeNoOp(nodes_.at(i));
    return absl::OkStatus();
  }

 private:
  // An Enter or a Switch that the stack's handle goes through.
  struct Step {
    int node = -1;
    int branch = -1;  // the Switch's output; -1 for an Enter
  };
  struct Use {
    int node = -1;
    std::vector<Step> steps;  // from the outermost on
  };
  struct Uses {
    std::vector<Use> pushes, pops;
  };

  // A push within a branch that is not taken never has a value, and outside of the branch nothing but a ControlTrigger
  // may wait for it. What the NoOp in its place waits for is the condition: that the list is full follows from the
  // data.
  void WaitForConditions(proto::NodeDef& trigger) {
    std::set<std::string> waits;
    for (const std::string& input : trigger.input()) {
      const int from = input.starts_with('^') ? nodes_.Find(input.substr(1)) : -1;
      const bool stack = from >= 0 && (IsOp(nodes_.at(from), "StackPush") || IsOp(nodes_.at(from), "StackPop"));
      const std::string condition = stack ? ConditionOf(from) : std::string();
      waits.insert(condition.empty() ? input : "^" + condition);
    }
    trigger.clear_input();
    for (const std::string& input : waits) trigger.add_input(input);
  }

  // The node that chooses the outermost branch in which `use` of a stack stands; empty where it stands in none.
  std::string ConditionOf(int use) {
    std::string condition;
    for (int steps = 0; steps < nodes_.size(); ++steps) {
      const proto::NodeDef& node = nodes_.at(use);
      if (node.input_size() == 0) break;
      if (node.op() == "Switch" && node.input_size() > 1) {
        const StatusOr<NodeRef> chooser = ParseNodeRef(node.input(1));
        if (chooser.ok()) condition = chooser->node;
      }
      const StatusOr<NodeRef> handle = ParseNodeRef(node.input(0));
      if (!handle.ok() || nodes_.Find(handle->node) < 0) break;
      use = nodes_.Find(handle->node);
      const std::string_view op = nodes_.at(use).op();
      if (op != "Switch" && op != "Enter" && op != "Identity") break;
    }
    return condition;
  }

  // The one LoopCond of each frame.
  Status FindConditions() {
    for (int i = 0; i < nodes_.size(); ++i)
      if (nodes_.at(i).op() == "LoopCond") conditions_[frames_.of(i)] = nodes_.at(i).name();
    return absl::OkStatus();
  }

  Status AddUse(int i) {
    RIVULET_ASSIGN_OR_RETURN(std::vector<NodeRef> inputs, nodes_.Inputs(i));
    Use use{.node = i, .steps = {}};
    for (int steps = 0; !inputs.empty() && steps < nodes_.size(); ++steps) {
      const int from = nodes_.Find(inputs[0].node);
      const proto::NodeDef& node = nodes_.at(from);
      if (IsOp(node, "Stack")) {
        std::ranges::reverse(use.steps);
        Uses& uses = uses_[from];
        (IsOp(nodes_.at(i), "StackPush") ? uses.pushes : uses.pops).push_back(use);
        return absl::OkStatus();
      }
      if (node.op() == "Enter") use.steps.push_back({from, -1});
      if (node.op() == "Switch") use.steps.push_back({from, inputs[0].port});
      if (node.op() != "Enter" && node.op() != "Identity" && node.op() != "Switch") break;
      RIVULET_ASSIGN_OR_RETURN(inputs, nodes_.Inputs(from));
    }
    return Unimplemented("{}: the stack of its handle is unknown", DescribeMessage(nodes_.at(i)));
  }

  Status RaiseStack(int stack, const Uses& uses) {
    const std::string name = nodes_.at(stack).name();
    if (uses.pushes.size() > 1 || uses.pops.size() > 1)
      return Unimplemented("{} has {} pushes and {} pops; one of each can be raised", DescribeMessage(nodes_.at(stack)),
                           uses.pushes.size(), uses.pops.size());
    const auto type = nodes_.at(stack).attr().find("elem_type");
    if (type == nodes_.at(stack).attr().end())
      return InvalidArgument("{}: attribute 'elem_type' is missing", DescribeMessage(nodes_.at(stack)));
    const proto::AttrValue element = type->second;
    const std::string any_shape = AddMinusOne(name + "/element_shape"),
                      any_number = AddMinusOne(name + "/max_elements");
    proto::NodeDef& list = nodes_.at(stack);
    list.set_op("EmptyTensorList");
    list.clear_input();
    list.clear_attr();
    list.add_input(any_shape);
    list.add_input(any_number);
    (*list.mutable_attr())["element_dtype"] = element;
    (*list.mutable_attr())["shape_type"].set_type(proto::DT_INT32);
    std::string now = name;
    for (const Use& push : uses.pushes) {
      RIVULET_ASSIGN_OR_RETURN(
          now, Thread(push, 0, now, [&](const std::string& held) { return Push(push, held, element); }));
    }
    for (const Use& pop : uses.pops) {
      RIVULET_ASSIGN_OR_RETURN(
          now, Thread(pop, 0, now, [&](const std::string& held) { return Pop(pop, held, element, any_shape); }));
    }
    return absl::OkStatus();
  }

  // `held` within the loops and branches of `use` from `level` on, changed there by `change`; what it is behind them.
  template <typename Change>
  StatusOr<std::string> Thread(const Use& use, size_t level, const std::string& held, const Change& change) {
    if (level == use.steps.size()) return change(held);
    if (use.steps[level].branch >= 0) return ThreadBranch(use, level, held, change);
    const int enter = use.steps[level].node;
    const auto condition = conditions_.find(frames_.after(enter));
    if (condition == conditions_.end())
      return Unimplemented("{} enters a loop that has no LoopCond", DescribeMessage(nodes_.at(enter)));
    const std::string base = nodes_.at(enter).name();
    const std::string frame = nodes_.at(enter).attr().at("frame_name").s();
    proto::NodeDef& into = AddVariant(base + "/list", "Enter");
    into.add_input(held);
    (*into.mutable_attr())["frame_name"].set_s(frame);
    const std::string entered = into.name();
    const std::string merged = AddVariant(base + "/list_merge", "Merge").name();
    proto::NodeDef& split = AddVariant(base + "/list_switch", "Switch");
    split.add_input(merged);
    split.add_input(condition->second);
    const std::string switched = split.name();
    RIVULET_ASSIGN_OR_RETURN(const std::string changed, Thread(use, level + 1, switched + ":1", change));
    proto::NodeDef& next = AddVariant(base + "/list_next", "NextIteration");
    next.add_input(changed);
    proto::NodeDef& merge = nodes_.at(nodes_.Find(merged));
    merge.add_input(entered);
    merge.add_input(next.name());
    (*merge.mutable_attr())["N"].set_i(2);
    proto::NodeDef& exit = AddVariant(base + "/list_exit", "Exit");
    exit.add_input(switched);
    return exit.name();
  }

  // The list as one branch of a condition changes it, and as the other one leaves it.
  template <typename Change>
  StatusOr<std::string> ThreadBranch(const Use& use, size_t level, const std::string& held, const Change& change) {
    const auto [chooser, branch] = use.steps[level];
    if (nodes_.at(chooser).input_size() < 2)
      return InvalidArgument("{} has no condition", DescribeMessage(nodes_.at(chooser)));
    const std::string base = nodes_.at(chooser).name(), condition = nodes_.at(chooser).input(1);
    proto::NodeDef& split = AddVariant(base + "/list_switch", "Switch");
    split.add_input(held);
    split.add_input(condition);
    const std::string no = split.name(), yes = no + ":1";
    RIVULET_ASSIGN_OR_RETURN(const std::string changed, Thread(use, level + 1, branch == 1 ? yes : no, change));
    proto::NodeDef& merge = AddVariant(base + "/list_merge", "Merge");
    merge.add_input(branch == 1 ? no : changed);
    merge.add_input(branch == 1 ? changed : yes);
    (*merge.mutable_attr())["N"].set_i(2);
    return merge.name();
  }

  // The push gives its element on, so its node stays, as that.
  StatusOr<std::string> Push(const Use& use, const std::string& held, const proto::AttrValue& element) {
    const std::string name = nodes_.at(use.node).name();
    if (nodes_.at(use.node).input_size() < 2)
      return InvalidArgument("{} has no element to push", DescribeMessage(nodes_.at(use.node)));
    proto::NodeDef& push = nodes_.Add(name + "/list", "TensorListPushBack");
    push.add_input(held);
    push.add_input(nodes_.at(use.node).input(1));
    (*push.mutable_attr())["element_dtype"] = element;
    BecomeIdentity(nodes_.at(use.node), nodes_.at(use.node).input(1), element, /*keep_controls=*/true);
    return push.name();
  }

  StatusOr<std::string> Pop(const Use& use, const std::string& held, const proto::AttrValue& element,
                            const std::string& any_shape) {
    const std::string name = nodes_.at(use.node).name();
    proto::NodeDef& pop = nodes_.Add(name + "/list", "TensorListPopBack");
    pop.add_input(held);
    pop.add_input(any_shape);
    (*pop.mutable_attr())["element_dtype"] = element;
    // It waited for the stack to be full, which the list's data dependence ensures.
    BecomeIdentity(nodes_.at(use.node), pop.name() + ":1", element, /*keep_controls=*/false);
    return pop.name();
  }

  static void BecomeIdentity(proto::NodeDef& node, std::string input, const proto::AttrValue& type,
                             bool keep_controls) {
    std::vector<std::string> inputs = {std::move(input)};
    for (const std::string& each : node.input())
      if (keep_controls && each.starts_with('^')) inputs.push_back(each);
    node.set_op("Identity");
    node.clear_input();
    node.clear_attr();
    for (std::string& each : inputs) node.add_input(std::move(each));
    (*node.mutable_attr())["T"] = type;
  }

  static void BecomeNoOp(proto::NodeDef& node) {
    std::vector<std::string> controls;
    for (const std::string& input : node.input())
      if (input.starts_with('^')) controls.push_back(input);
    node.set_op("NoOp");
    node.clear_input();
    node.clear_attr();
    for (std::string& input : controls) node.add_input(std::move(input));
  }

  proto::NodeDef& AddVariant(const std::string& wanted, const std::string& op) {
    proto::NodeDef& node = nodes_.Add(wanted, op);
    (*node.mutable_attr())["T"].set_type(proto::DT_VARIANT);
    return node;
  }

  std::string AddMinusOne(const std::string& wanted) {
    proto::NodeDef& node = nodes_.Add(wanted, "Const");
    (*node.mutable_attr())["dtype"].set_type(proto::DT_INT32);
    proto::TensorProto& value = *(*node.mutable_attr())["value"].mutable_tensor();
    value.set_dtype(proto::DT_INT32);
    value.mutable_tensor_shape();
    value.add_int_val(-1);
    return node.name();
  }

  ControlFlowNodes nodes_;
  ControlFlowFrames frames_;
  std::map<int, std::string> conditions_;  // by frame
  std::map<int, Uses> uses_;               // by stack
};

}  // namespace

Status RaiseStacks(proto::GraphDef& graph) { return StackRaiser(graph).Run(); }

}  // namespace rivulet
