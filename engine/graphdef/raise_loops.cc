// Frames of Enter, Merge, Switch, NextIteration and Exit, raised to While.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/graphdef/control_flow_frames.h"
#include "engine/graphdef/control_flow_raiser.h"

namespace rivulet {
namespace {

class LoopRaiser {
 public:
  LoopRaiser(ControlFlowNodes& nodes, ControlFlowBodies& bodies) : nodes_(nodes), bodies_(bodies), frames_(nodes) {}

  StatusOr<std::set<std::string>> Run() {
    RIVULET_RETURN_IF_ERROR(frames_.Find());
    const int frames = static_cast<int>(frames_.count());
    RIVULET_RETURN_IF_ERROR(nodes_.CheckCost(frames_.count(), "loops"));
    for (int frame = 1; frame < frames; ++frame)
      if (frames_.frame(frame).depth == 1) RIVULET_RETURN_IF_ERROR(RaiseLoop(frame));
    return std::move(removed_);
  }

 private:
  struct LoopVariable {
    int merge = -1;
    int enter = -1;
    int next = -1;
    DType dtype = DType::kInvalid;
  };
  // A frame read as a loop.
  struct Loop {
    int frame = 0;
    std::string name;
    int condition = -1;  // its LoopCond
    std::vector<int> exits;
    std::vector<LoopVariable> variables;
    std::map<NodeRef, std::string> boundary;  // name of a loop variable in the frame → its argument
    std::map<std::string, int> variable_of;   // Merge → variable
    std::map<std::string, int> switched;      // Switch → variable
  };

  // A loop variable is a Merge of an Enter and a NextIteration. Its value within an iteration is the Merge's for the
  // condition and the Switch's second output for the body. Both become the same argument, and further inputs of both
  // sides become loop variables that never change. A While of functions is then the same loop, with the iteration's
  // graph instead of a cycle.
  Status RaiseLoop(int frame) {
    RIVULET_ASSIGN_OR_RETURN(const Loop loop, ReadLoop(frame));
    Captures captures;
    RIVULET_ASSIGN_OR_RETURN(LoopBodies bodies, ExtractBodies(loop, captures));
    RIVULET_ASSIGN_OR_RETURN(const std::string raised, AddWhile(loop, bodies, captures));
    std::set<std::string> gone = NodesOf(loop);
    RIVULET_RETURN_IF_ERROR(KeepExits(loop, raised, gone));
    RIVULET_RETURN_IF_ERROR(WaitForLoop(loop, raised, gone));
    TakeOut(gone);
    return absl::OkStatus();
  }

  StatusOr<Loop> ReadLoop(int frame) {
    Loop loop{.frame = frame, .name = frames_.frame(frame).name};
    std::vector<int> switches;
    for (int i = 0; i < frames_.size(); ++i) {
      if (frames_.of(i) != frame) continue;
      const proto::NodeDef& node = nodes_.at(i);
      if (node.op() == "LoopCond") {
        if (loop.condition >= 0)
          return InvalidArgument("{}: the loop '{}' has another condition, '{}'", DescribeMessage(node), loop.name,
                                 nodes_.at(loop.condition).name());
        loop.condition = i;
      }
      if (node.op() == "Switch") switches.push_back(i);
      if (node.op() == "Exit") loop.exits.push_back(i);
      if (node.op() == "Merge" && node.input_size() == 2) RIVULET_RETURN_IF_ERROR(ReadLoopVariable(i, loop));
    }
    if (loop.condition < 0) return InvalidArgument("the loop '{}' has no LoopCond, so it has no end", loop.name);
    for (const int i : switches) RIVULET_RETURN_IF_ERROR(ReadLoopSwitch(i, loop));
    return loop;
  }

  Status ReadLoopVariable(int merge, Loop& loop) {
    const proto::NodeDef& node = nodes_.at(merge);
    RIVULET_ASSIGN_OR_RETURN(const std::vector<NodeRef> inputs, nodes_.Inputs(merge));
    LoopVariable variable;
    variable.merge = merge;
    for (const NodeRef& input : inputs) {
      const int at = nodes_.Find(input.node);
      if (nodes_.at(at).op() == "Enter") variable.enter = at;
      if (nodes_.at(at).op() == "NextIteration") variable.next = at;
    }
    if (variable.next < 0) return absl::OkStatus();  // of a condition in the loop
    if (variable.enter < 0)
      return InvalidArgument("{}: a loop variable merges an Enter and a NextIteration, not '{}' and '{}'",
                             DescribeMessage(node), node.input(0), node.input(1));
    RIVULET_ASSIGN_OR_RETURN(variable.dtype, nodes_.TypeOf({node.name(), 0}));
    const int index = static_cast<int>(loop.variables.size());
    loop.variable_of[node.name()] = index;
    loop.boundary[{node.name(), 0}] = ArgumentRef(index);
    loop.variables.push_back(variable);
    return absl::OkStatus();
  }

  // The Switches of conditions within an iteration ask something else than the LoopCond, and are the body's.
  Status ReadLoopSwitch(int i, Loop& loop) {
    RIVULET_ASSIGN_OR_RETURN(const std::vector<NodeRef> inputs, nodes_.Inputs(i));
    if (inputs.size() < 2 || inputs[1].node != nodes_.at(loop.condition).name()) return absl::OkStatus();
    const auto variable = loop.variable_of.find(inputs[0].node);
    if (variable == loop.variable_of.end())
      return InvalidArgument("{}: the loop '{}' switches '{}', which is no loop variable",
                             DescribeMessage(nodes_.at(i)), loop.name, inputs[0].node);
    loop.switched[nodes_.at(i).name()] = variable->second;
    loop.boundary[{nodes_.at(i).name(), 1}] = ArgumentRef(variable->second);
    return absl::OkStatus();
  }

  struct LoopBodies {
    ControlFlowBody test, body;
  };
  StatusOr<LoopBodies> ExtractBodies(const Loop& loop, Captures& captures) {
    const BodyRegion region = {
        .inside = [&](int i) { return frames_.Within(i, loop.frame); },
        .capture = [&](const NodeRef& ref) { return CaptureOfLoop(loop, ref, captures); },
        .is_boundary =
            [&](int i) {
              const proto::NodeDef& node = nodes_.at(i);
              return loop.variable_of.contains(node.name()) || loop.switched.contains(node.name()) ||
                     i == loop.condition || EntersLoop(loop, i);
            },
    };
    LoopBodies bodies;
    RIVULET_ASSIGN_OR_RETURN(const std::vector<NodeRef> wanted, InputsOf(loop.condition));
    RIVULET_ASSIGN_OR_RETURN(bodies.test, bodies_.Extract({wanted[0]}, region, captures));
    std::vector<NodeRef> results;
    for (const LoopVariable& variable : loop.variables) {
      RIVULET_ASSIGN_OR_RETURN(const std::vector<NodeRef> inputs, InputsOf(variable.next));
      results.push_back(inputs[0]);
    }
    RIVULET_ASSIGN_OR_RETURN(bodies.body, bodies_.Extract(results, region, captures));
    return bodies;
  }

  // Returns the name of `ref` in the loop's functions if it is a loop variable or from outside; else "".
  StatusOr<std::string> CaptureOfLoop(const Loop& loop, const NodeRef& ref, Captures& captures) {
    if (const auto variable = loop.boundary.find(ref); variable != loop.boundary.end()) return variable->second;
    const int i = nodes_.Find(ref.node);
    // A constant of the graph around may be used in a frame without an Enter, when it has no inputs; it is captured
    // like any other.
    if (!frames_.Within(i, loop.frame) && frames_.after(i) != loop.frame) return CaptureRef(captures.Add(ref));
    if (!EntersLoop(loop, i)) return std::string();
    RIVULET_ASSIGN_OR_RETURN(const std::vector<NodeRef> inputs, InputsOf(i));
    for (size_t at = 1; at < inputs.size(); ++at) captures.controls.insert(inputs[at].node);
    return CaptureRef(captures.Add(inputs[0]));
  }

  bool EntersLoop(const Loop& loop, int i) { return nodes_.at(i).op() == "Enter" && frames_.after(i) == loop.frame; }

  // Its inputs, of which there must be one.
  StatusOr<std::vector<NodeRef>> InputsOf(int i) {
    RIVULET_ASSIGN_OR_RETURN(std::vector<NodeRef> inputs, nodes_.Inputs(i));
    if (inputs.empty()) return InvalidArgument("{} has no input", DescribeMessage(nodes_.at(i)));
    return inputs;
  }

  // The loop as one node, by its name: its outputs are the loop variables, and then the captures, which never change.
  StatusOr<std::string> AddWhile(const Loop& loop, LoopBodies& bodies, const Captures& captures) {
    std::vector<DType> types;
    for (const LoopVariable& variable : loop.variables) types.push_back(variable.dtype);
    for (size_t i = 0; i < captures.sources.size(); ++i) {
      RIVULET_ASSIGN_OR_RETURN(const DType dtype, nodes_.TypeOf(captures.sources[i]));
      types.push_back(dtype);
      bodies.body.results.push_back(CaptureRef(static_cast<int>(i)));
    }
    const int own = static_cast<int>(loop.variables.size());
    RIVULET_ASSIGN_OR_RETURN(const std::string test_name,
                             bodies_.AddFunction(loop.name + "_cond", bodies.test, types, own, {DType::kBool}));
    RIVULET_ASSIGN_OR_RETURN(const std::string body_name,
                             bodies_.AddFunction(loop.name + "_body", bodies.body, types, own, types));

    proto::NodeDef& node =
        nodes_.Add(loop.name.empty() ? "While" : loop.name + "/While",
                   bodies_.is_stateful(test_name) || bodies_.is_stateful(body_name) ? "While" : "StatelessWhile");
    std::set<std::string> controls = captures.controls;
    for (const LoopVariable& variable : loop.variables) {
      RIVULET_ASSIGN_OR_RETURN(const std::vector<NodeRef> inputs, InputsOf(variable.enter));
      node.add_input(inputs[0].ToString());
      for (size_t at = 1; at < inputs.size(); ++at) controls.insert(inputs[at].node);
    }
    for (const NodeRef& source : captures.sources) node.add_input(source.ToString());
    for (const std::string& control : controls) node.add_input("^" + control);
    SetTypes(node, "T", types);
    (*node.mutable_attr())["cond"].mutable_func()->set_name(test_name);
    (*node.mutable_attr())["body"].mutable_func()->set_name(body_name);
    frames_.Add(0);
    return node.name();
  }

  // By name, with the Enters that stand outside.
  std::set<std::string> NodesOf(const Loop& loop) {
    std::set<std::string> nodes;
    for (int i = 0; i < frames_.size(); ++i)
      if (frames_.Within(i, loop.frame) || EntersLoop(loop, i)) nodes.insert(nodes_.at(i).name());
    return nodes;
  }

  // Once the loop is the node `raised`, only what left it by an Exit, or waits for it, is known outside.
  // Exits stay under their names, as an Identity of the loop's output: they are what users feed, fetch and build on.
  Status KeepExits(const Loop& loop, const std::string& raised, std::set<std::string>& gone) {
    for (const int i : loop.exits) {
      proto::NodeDef& exit = nodes_.at(i);
      RIVULET_ASSIGN_OR_RETURN(const std::vector<NodeRef> inputs, nodes_.Inputs(i));
      const auto variable = inputs.empty() ? loop.switched.end() : loop.switched.find(inputs[0].node);
      if (variable == loop.switched.end() || inputs[0].port != 0)
        return InvalidArgument("{}: an Exit takes the first output of a loop variable's Switch, not '{}'",
                               DescribeMessage(exit), exit.input_size() > 0 ? exit.input(0) : "");
      const auto type = exit.attr().find("T");
      const proto::AttrValue dtype = type == exit.attr().end() ? proto::AttrValue() : type->second;
      exit.set_op("Identity");
      exit.clear_attr();
      (*exit.mutable_attr())["T"] = dtype;
      exit.clear_input();
      exit.add_input(NodeRef{raised, variable->second, false}.ToString());
      gone.erase(exit.name());
      frames_.Move(i, 0);
    }
    return absl::OkStatus();
  }

  // A value of some iteration has no meaning outside; to wait for it can only mean to wait for the loop.
  Status WaitForLoop(const Loop& loop, const std::string& raised, const std::set<std::string>& gone) {
    for (int i = 0; i < nodes_.size(); ++i) {
      proto::NodeDef& node = nodes_.at(i);
      if (gone.contains(node.name())) continue;
      for (std::string& input : *node.mutable_input()) {
        RIVULET_ASSIGN_OR_RETURN(const NodeRef ref, ParseNodeRef(input));
        if (!gone.contains(ref.node)) continue;
        if (!ref.control)
          return Unimplemented("{}: its input '{}' leaves the loop '{}' other than by an Exit", DescribeMessage(node),
                               input, loop.name);
        input = "^" + raised;
      }
    }
    return absl::OkStatus();
  }

  // Nodes are not taken out yet, because indices must hold until all loops are done.
  void TakeOut(const std::set<std::string>& names) {
    for (const std::string& name : names) {
      const int i = nodes_.Find(name);
      proto::NodeDef& node = nodes_.at(i);
      node.set_op("NoOp");  // until Prune takes it
      node.clear_input();
      node.clear_attr();
      removed_.insert(name);
      frames_.Move(i, -1);
    }
  }

  ControlFlowNodes& nodes_;
  ControlFlowBodies& bodies_;
  ControlFlowFrames frames_;
  std::set<std::string> removed_;
};

}  // namespace

StatusOr<std::set<std::string>> RaiseLoops(ControlFlowNodes& nodes, ControlFlowBodies& bodies) {
  return LoopRaiser(nodes, bodies).Run();
}

}  // namespace rivulet
