#include "engine/graphdef/raise_control_flow.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <queue>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/graph/inference.h"
#include "engine/graph/op.h"
#include "engine/graphdef/proto_conversion.h"
#include "engine/graphdef/verify.h"

namespace rivulet {
namespace {

// Frames within frames, and switches that one node depends on: more than anybody writes.
// Bodies are raised by recursion, so their depth must be bounded before the stack is.
constexpr int kDeepest = 32;
constexpr size_t kMostPredicates = 64;

bool IsControlFlow(std::string_view op) {
  return op == "Switch" || op == "Merge" || op == "Enter" || op == "Exit" || op == "NextIteration" || op == "LoopCond";
}

std::string Describe(const proto::NodeDef& node) { return fmt::format("{} '{}'", node.op(), node.name()); }

struct Ref {
  std::string node;
  int port = 0;
  bool control = false;
  auto operator<=>(const Ref&) const = default;
  std::string ToString() const { return control ? "^" + node : port == 0 ? node : fmt::format("{}:{}", node, port); }
};
StatusOr<Ref> Parse(const std::string& text) {
  RIVULET_ASSIGN_OR_RETURN(const InputRef ref, ParseInputRef(text));
  return Ref{std::string(ref.node), ref.port, ref.control};
}

// Attributes as far as the types of the outputs need them.
StatusOr<AttrMap> TypeAttributes(const proto::NodeDef& node, const OpDef& op) {
  AttrMap attrs;
  size_t budget = 0;
  for (const AttrDef& def : op.attrs) {
    using Kind = AttrDef::Kind;
    if (def.kind != Kind::kType && def.kind != Kind::kTypeList && def.kind != Kind::kInt) continue;
    const auto given = node.attr().find(def.name);
    if (given != node.attr().end()) {
      StatusOr<AttrValue> value = AttrFromProto(given->second, &def, budget);
      if (!value.ok()) return Annotate(value.status(), fmt::format("{}: attribute '{}'", Describe(node), def.name));
      attrs.emplace(def.name, *std::move(value));
    } else if (def.default_value) {
      attrs.emplace(def.name, *def.default_value);
    }
  }
  for (const ArgDef& output : op.outputs)
    for (const std::string* name : {&output.type_attr, &output.number_attr, &output.type_list_attr})
      if (!name->empty() && !attrs.contains(*name))
        return InvalidArgument("{}: attribute '{}' is missing", Describe(node), *name);
  return attrs;
}

// The nodes of a graph by name; new ones join at the end, and taken ones leave at last.
// The message is changed in place, by name: what is raised runs before anything is verified or built, and a graph of
// this version cannot be built from nodes first, because its loops are cycles.
class Nodes {
 public:
  explicit Nodes(proto::GraphDef& graph) : graph_(graph) {
    for (int i = 0; i < graph.node_size(); ++i) index_.emplace(graph.node(i).name(), i);
  }
  int Find(const std::string& name) const {
    const auto found = index_.find(name);
    return found == index_.end() ? -1 : found->second;
  }
  int size() const { return graph_.node_size(); }
  proto::NodeDef& at(int i) { return *graph_.mutable_node(i); }
  const proto::NodeDef& at(int i) const { return graph_.node(i); }
  StatusOr<std::vector<Ref>> Inputs(int i) const {
    std::vector<Ref> refs;
    for (const std::string& text : at(i).input()) {
      StatusOr<Ref> ref = Parse(text);
      if (!ref.ok()) return Annotate(ref.status(), Describe(at(i)));
      if (Find(ref->node) < 0) return NotFound("{}: its input '{}' is not in the graph", Describe(at(i)), ref->node);
      refs.push_back(*std::move(ref));
    }
    return refs;
  }
  proto::NodeDef& Add(const std::string& wanted, const std::string& op) {
    std::string name = wanted;
    for (int n = 1; index_.contains(name); ++n) name = fmt::format("{}_{}", wanted, n);
    index_.emplace(name, graph_.node_size());
    proto::NodeDef& node = *graph_.add_node();
    node.set_name(name);
    node.set_op(op);
    return node;
  }
  StatusOr<DType> TypeOf(const Ref& ref) const {
    const proto::NodeDef& node = at(Find(ref.node));
    if (node.op() == "LoopCond") return DType::kBool;
    if (node.op() == "Merge" && ref.port == 1) return DType::kInt32;
    if (IsControlFlow(node.op())) {
      const auto type = node.attr().find("T");
      if (type == node.attr().end()) return InvalidArgument("{}: attribute 'T' is missing", Describe(node));
      return DTypeFromProto(type->second.type());
    }
    const StatusOr<const OpDef*> op = OpRegistry::Global().Get(node.op());
    if (!op.ok()) return NotFound("node '{}': {}", node.name(), Message(op.status()));
    RIVULET_ASSIGN_OR_RETURN(const AttrMap attrs, TypeAttributes(node, **op));
    const std::vector<DType> types = OutputTypes(**op, attrs);
    if (ref.port < 0 || static_cast<size_t>(ref.port) >= types.size())
      return InvalidArgument("{} has no output {}", Describe(node), ref.port);
    return types[static_cast<size_t>(ref.port)];
  }

 private:
  proto::GraphDef& graph_;
  std::unordered_map<std::string, int> index_;
};

// What a body takes from the graph around it: its arguments beyond the first.
struct Captures {
  std::vector<Ref> sources;
  std::set<std::string> controls;  // what the node that runs the body waits for
  int Add(const Ref& source) {
    const auto found = std::ranges::find(sources, source);
    if (found != sources.end()) return static_cast<int>(found - sources.begin());
    sources.push_back(source);
    return static_cast<int>(sources.size()) - 1;
  }
};

// A body in the making: nodes whose inputs "%a<i>" are arguments and "%c<i>" captures, and results likewise.
// The two kinds of names can be in no graph, as "%" is in no valid name.
struct Body {
  proto::GraphDef graph;
  std::vector<std::string> results;
};
std::string ArgumentRef(int i) { return fmt::format("%a{}", i); }
std::string CaptureRef(int i) { return fmt::format("%c{}", i); }

class ControlFlowRaiser {
 public:
  ControlFlowRaiser(proto::GraphDef& graph, proto::FunctionDefLibrary& library, int depth)
      : graph_(graph), nodes_(graph), library_(library), depth_(depth) {}

  // `results` are what is wanted of a body; of a graph, everything that is not of a branch or a loop.
  // Loops first, as their frames can be told from the graph alone; a condition within a loop is then raised when its
  // body is, as a graph without cycles. Raising from the outside in means that each body meets the same code again, one
  // level deeper.
  Status Run(const std::vector<std::string>* results) {
    if (depth_ > kDeepest) return Unimplemented("loops and conditions are nested more than {} deep", kDeepest);
    bool any = false;
    for (int i = 0; i < nodes_.size(); ++i) any = any || IsControlFlow(nodes_.at(i).op());
    if (!any) return absl::OkStatus();
    RIVULET_RETURN_IF_ERROR(RaiseLoops());
    RIVULET_RETURN_IF_ERROR(RaiseConditions());
    return Prune(results);
  }

 private:
  // ---- Loops -------------------------------------------------------------------------------------------------------

  struct Frame {
    int parent = -1;
    int depth = 0;
    std::string name;
  };

  static std::string FrameName(const proto::NodeDef& enter) {
    const auto found = enter.attr().find("frame_name");
    return found == enter.attr().end() ? "" : found->second.s();
  }
  static bool IsInvariant(const proto::NodeDef& enter) {
    const auto found = enter.attr().find("is_constant");
    return found != enter.attr().end() && found->second.b();
  }

  // The frame that a node's outputs are in; -1 while unknown.
  int FrameAfter(int i) {
    const int frame = frame_[static_cast<size_t>(i)];
    if (frame < 0) return -1;
    const proto::NodeDef& node = nodes_.at(i);
    if (node.op() == "Exit") return std::max(frames_[static_cast<size_t>(frame)].parent, 0);
    if (node.op() != "Enter") return frame;
    const auto [found, inserted] = frame_index_.try_emplace({frame, FrameName(node)}, static_cast<int>(frames_.size()));
    if (inserted) frames_.push_back({frame, frames_[static_cast<size_t>(frame)].depth + 1, FrameName(node)});
    return found->second;
  }

  // Frames are not written down but follow from paths: an Enter leads into one, an Exit out of it. Two Enters of one
  // frame name are one frame only within the same parent.
  Status FindFrames() {
    const size_t count = static_cast<size_t>(nodes_.size());
    frames_ = {{-1, 0, ""}};
    frame_index_.clear();
    frame_.assign(count, -1);
    std::vector<std::vector<int>> users(count);
    std::queue<int> work;
    for (int i = 0; i < nodes_.size(); ++i) {
      RIVULET_ASSIGN_OR_RETURN(const std::vector<Ref> inputs, nodes_.Inputs(i));
      for (const Ref& input : inputs) users[static_cast<size_t>(nodes_.Find(input.node))].push_back(i);
      if (!inputs.empty()) continue;
      frame_[static_cast<size_t>(i)] = 0;
      work.push(i);
    }
    // A node is in the deepest frame that an input comes from: a constant without inputs may serve any frame.
    while (!work.empty()) {
      const int i = work.front();
      work.pop();
      const int after = FrameAfter(i);
      const Frame& frame = frames_[static_cast<size_t>(after)];
      if (frame.depth > kDeepest) return Unimplemented("loops are nested more than {} deep", kDeepest);
      for (const int user : users[static_cast<size_t>(i)]) {
        int& known = frame_[static_cast<size_t>(user)];
        if (known >= 0 && frames_[static_cast<size_t>(known)].depth >= frame.depth) continue;
        known = after;
        work.push(user);
      }
    }
    return absl::OkStatus();
  }

  // Whether a node lies within `frame`, or a frame within that.
  bool Within(int i, int frame) const {
    for (int at = frame_[static_cast<size_t>(i)]; at >= 0; at = frames_[static_cast<size_t>(at)].parent)
      if (at == frame) return true;
    return false;
  }

  // Each loop and each condition walks over the graph: what they cost together is bounded.
  Status CheckCost(size_t walks, std::string_view what) const {
    constexpr size_t kMostVisits = 200'000'000;
    if (walks * static_cast<size_t>(nodes_.size()) > kMostVisits)
      return ResourceExhausted("{} {} in a graph of {} nodes are too many to raise", walks, what, nodes_.size());
    return absl::OkStatus();
  }

  // Only the outermost: inner ones are in the bodies that this makes, and are raised there.
  Status RaiseLoops() {
    RIVULET_RETURN_IF_ERROR(FindFrames());
    const size_t frames = frames_.size();
    RIVULET_RETURN_IF_ERROR(CheckCost(frames, "loops"));
    for (size_t frame = 1; frame < frames; ++frame)
      if (frames_[frame].depth == 1) RIVULET_RETURN_IF_ERROR(RaiseLoop(static_cast<int>(frame)));
    return absl::OkStatus();
  }

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
    std::map<Ref, std::string> boundary;     // what a loop variable is called in the frame → its argument
    std::map<std::string, int> variable_of;  // Merge → variable
    std::map<std::string, int> switched;     // Switch → variable
  };

  // A loop variable is a Merge of an Enter and a NextIteration; its value within an iteration is the Merge's for the
  // condition and the Switch's second output for the body. Both become the same argument, and whatever the two sides
  // need besides becomes a further loop variable that never changes. A While of functions is then the same loop, with
  // the iteration's graph drawn once instead of as a circle.
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
    Loop loop{.frame = frame, .name = frames_[static_cast<size_t>(frame)].name};
    std::vector<int> switches;
    for (int i = 0; i < static_cast<int>(frame_.size()); ++i) {
      if (frame_[static_cast<size_t>(i)] != frame) continue;
      const proto::NodeDef& node = nodes_.at(i);
      if (node.op() == "LoopCond") {
        if (loop.condition >= 0)
          return InvalidArgument("{}: the loop '{}' has another condition, '{}'", Describe(node), loop.name,
                                 nodes_.at(loop.condition).name());
        loop.condition = i;
      }
      if (node.op() == "Switch") switches.push_back(i);
      if (node.op() == "Exit") loop.exits.push_back(i);
      if (node.op() == "Merge" && node.input_size() == 2) RIVULET_RETURN_IF_ERROR(ReadLoopVariable(i, loop));
    }
    if (loop.condition < 0)
      return InvalidArgument("the loop '{}' has no LoopCond: nothing says when it ends", loop.name);
    for (const int i : switches) RIVULET_RETURN_IF_ERROR(ReadLoopSwitch(i, loop));
    return loop;
  }

  Status ReadLoopVariable(int merge, Loop& loop) {
    const proto::NodeDef& node = nodes_.at(merge);
    RIVULET_ASSIGN_OR_RETURN(const std::vector<Ref> inputs, nodes_.Inputs(merge));
    LoopVariable variable;
    variable.merge = merge;
    for (const Ref& input : inputs) {
      const int at = nodes_.Find(input.node);
      if (nodes_.at(at).op() == "Enter") variable.enter = at;
      if (nodes_.at(at).op() == "NextIteration") variable.next = at;
    }
    if (variable.next < 0) return absl::OkStatus();  // of a condition in the loop
    if (variable.enter < 0)
      return InvalidArgument("{}: a loop variable merges an Enter and a NextIteration, not '{}' and '{}'",
                             Describe(node), node.input(0), node.input(1));
    RIVULET_ASSIGN_OR_RETURN(variable.dtype, nodes_.TypeOf({node.name(), 0}));
    const int index = static_cast<int>(loop.variables.size());
    loop.variable_of[node.name()] = index;
    loop.boundary[{node.name(), 0}] = ArgumentRef(index);
    loop.variables.push_back(variable);
    return absl::OkStatus();
  }

  // The Switches of conditions within an iteration ask something else than the LoopCond, and are the body's.
  Status ReadLoopSwitch(int i, Loop& loop) {
    RIVULET_ASSIGN_OR_RETURN(const std::vector<Ref> inputs, nodes_.Inputs(i));
    if (inputs.size() < 2 || inputs[1].node != nodes_.at(loop.condition).name()) return absl::OkStatus();
    const auto variable = loop.variable_of.find(inputs[0].node);
    if (variable == loop.variable_of.end())
      return InvalidArgument("{}: the loop '{}' switches '{}', which is no loop variable", Describe(nodes_.at(i)),
                             loop.name, inputs[0].node);
    loop.switched[nodes_.at(i).name()] = variable->second;
    loop.boundary[{nodes_.at(i).name(), 1}] = ArgumentRef(variable->second);
    return absl::OkStatus();
  }

  struct LoopBodies {
    Body test, body;
  };
  StatusOr<LoopBodies> ExtractBodies(const Loop& loop, Captures& captures) {
    const auto inside = [&](int i) { return Within(i, loop.frame); };
    const auto capture = [&](const Ref& ref) { return CaptureOfLoop(loop, ref, captures); };
    const auto is_boundary = [&](int i) {
      const proto::NodeDef& node = nodes_.at(i);
      return loop.variable_of.contains(node.name()) || loop.switched.contains(node.name()) || i == loop.condition ||
             EntersLoop(loop, i);
    };
    LoopBodies bodies;
    RIVULET_ASSIGN_OR_RETURN(const std::vector<Ref> wanted, InputsOf(loop.condition));
    RIVULET_ASSIGN_OR_RETURN(bodies.test, Extract({wanted[0]}, inside, capture, is_boundary, captures));
    std::vector<Ref> results;
    for (const LoopVariable& variable : loop.variables) {
      RIVULET_ASSIGN_OR_RETURN(const std::vector<Ref> inputs, InputsOf(variable.next));
      results.push_back(inputs[0]);
    }
    RIVULET_ASSIGN_OR_RETURN(bodies.body, Extract(results, inside, capture, is_boundary, captures));
    return bodies;
  }

  // What the loop's functions call `ref` where it is a loop variable or comes from outside, else "".
  StatusOr<std::string> CaptureOfLoop(const Loop& loop, const Ref& ref, Captures& captures) {
    if (const auto variable = loop.boundary.find(ref); variable != loop.boundary.end()) return variable->second;
    const int i = nodes_.Find(ref.node);
    // A constant of the graph around may be used in a frame without an Enter, when it has no inputs; it is captured
    // like any other.
    if (!Within(i, loop.frame) && FrameAfter(i) != loop.frame) return CaptureRef(captures.Add(ref));
    if (!EntersLoop(loop, i)) return std::string();
    RIVULET_ASSIGN_OR_RETURN(const std::vector<Ref> inputs, InputsOf(i));
    for (size_t at = 1; at < inputs.size(); ++at) captures.controls.insert(inputs[at].node);
    return CaptureRef(captures.Add(inputs[0]));
  }

  bool EntersLoop(const Loop& loop, int i) { return nodes_.at(i).op() == "Enter" && FrameAfter(i) == loop.frame; }

  // Its inputs, of which there must be one.
  StatusOr<std::vector<Ref>> InputsOf(int i) {
    RIVULET_ASSIGN_OR_RETURN(std::vector<Ref> inputs, nodes_.Inputs(i));
    if (inputs.empty()) return InvalidArgument("{} has no input", Describe(nodes_.at(i)));
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
                             AddFunction(loop.name + "_cond", bodies.test, types, own, {DType::kBool}));
    RIVULET_ASSIGN_OR_RETURN(const std::string body_name,
                             AddFunction(loop.name + "_body", bodies.body, types, own, types));

    proto::NodeDef& node =
        nodes_.Add(loop.name.empty() ? "While" : loop.name + "/While",
                   stateful_.contains(test_name) || stateful_.contains(body_name) ? "While" : "StatelessWhile");
    std::set<std::string> controls = captures.controls;
    for (const LoopVariable& variable : loop.variables) {
      RIVULET_ASSIGN_OR_RETURN(const std::vector<Ref> inputs, InputsOf(variable.enter));
      node.add_input(inputs[0].ToString());
      for (size_t at = 1; at < inputs.size(); ++at) controls.insert(inputs[at].node);
    }
    for (const Ref& source : captures.sources) node.add_input(source.ToString());
    for (const std::string& control : controls) node.add_input("^" + control);
    SetTypes(node, "T", types);
    (*node.mutable_attr())["cond"].mutable_func()->set_name(test_name);
    (*node.mutable_attr())["body"].mutable_func()->set_name(body_name);
    frame_.push_back(0);
    return node.name();
  }

  // By name, with the Enters that stand outside.
  std::set<std::string> NodesOf(const Loop& loop) {
    std::set<std::string> nodes;
    for (int i = 0; i < static_cast<int>(frame_.size()); ++i)
      if (Within(i, loop.frame) || EntersLoop(loop, i)) nodes.insert(nodes_.at(i).name());
    return nodes;
  }

  // Once the loop is the node `raised`, only what left it by an Exit, or waits for it, is known outside.
  // Exits stay under their names, as an Identity of the loop's output: they are what users feed, fetch and build on.
  Status KeepExits(const Loop& loop, const std::string& raised, std::set<std::string>& gone) {
    for (const int i : loop.exits) {
      proto::NodeDef& exit = nodes_.at(i);
      RIVULET_ASSIGN_OR_RETURN(const std::vector<Ref> inputs, nodes_.Inputs(i));
      const auto variable = inputs.empty() ? loop.switched.end() : loop.switched.find(inputs[0].node);
      if (variable == loop.switched.end() || inputs[0].port != 0)
        return InvalidArgument("{}: an Exit takes the first output of a loop variable's Switch, not '{}'",
                               Describe(exit), exit.input_size() > 0 ? exit.input(0) : "");
      const auto type = exit.attr().find("T");
      const proto::AttrValue dtype = type == exit.attr().end() ? proto::AttrValue() : type->second;
      exit.set_op("Identity");
      exit.clear_attr();
      (*exit.mutable_attr())["T"] = dtype;
      exit.clear_input();
      exit.add_input(Ref{raised, variable->second, false}.ToString());
      gone.erase(exit.name());
      frame_[static_cast<size_t>(i)] = 0;
    }
    return absl::OkStatus();
  }

  // A value of some iteration has no meaning outside; to wait for it can only mean to wait for the loop.
  Status WaitForLoop(const Loop& loop, const std::string& raised, const std::set<std::string>& gone) {
    for (int i = 0; i < nodes_.size(); ++i) {
      proto::NodeDef& node = nodes_.at(i);
      if (gone.contains(node.name())) continue;
      for (std::string& input : *node.mutable_input()) {
        RIVULET_ASSIGN_OR_RETURN(const Ref ref, Parse(input));
        if (!gone.contains(ref.node)) continue;
        if (!ref.control)
          return Unimplemented("{}: its input '{}' leaves the loop '{}' other than by an Exit", Describe(node), input,
                               loop.name);
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
      frame_[static_cast<size_t>(i)] = -1;
    }
  }

  // What `roots` need, up to where `capture` gives a name for an input. Control inputs on boundaries mean nothing in a
  // body: it runs when they have.
  // The walk goes from what the function gives back to its inputs, so nodes that only ran beside, such as prints, are
  // taken only if something waits for them: version-1 graphs had them run with the loop only where a control edge said
  // so.
  template <typename Inside, typename Capture, typename IsBoundary>
  StatusOr<Body> Extract(const std::vector<Ref>& roots, const Inside& inside, const Capture& capture,
                         const IsBoundary& is_boundary, Captures& captures) {
    Body body;
    std::set<int> taken;
    std::vector<int> work;
    const auto name_of = [&](const Ref& ref) -> StatusOr<std::string> {
      RIVULET_ASSIGN_OR_RETURN(std::string captured, capture(ref));
      if (!captured.empty()) return captured;
      const int i = nodes_.Find(ref.node);
      if (is_boundary(i))
        return Unimplemented("{}: its output {} is used where only the other one has a value", Describe(nodes_.at(i)),
                             ref.port);
      if (taken.insert(i).second) work.push_back(i);
      return ref.ToString();
    };
    for (const Ref& root : roots) {
      RIVULET_ASSIGN_OR_RETURN(std::string name, name_of(root));
      body.results.push_back(std::move(name));
    }
    while (!work.empty()) {
      const int i = work.back();
      work.pop_back();
      proto::NodeDef copy = nodes_.at(i);
      copy.clear_input();
      RIVULET_ASSIGN_OR_RETURN(const std::vector<Ref> inputs, nodes_.Inputs(i));
      for (const Ref& input : inputs) {
        if (!input.control) {
          RIVULET_ASSIGN_OR_RETURN(const std::string name, name_of(input));
          copy.add_input(name);
          continue;
        }
        const int before = nodes_.Find(input.node);
        if (is_boundary(before)) continue;
        if (!inside(before)) {
          captures.controls.insert(input.node);
          continue;
        }
        if (taken.insert(before).second) work.push_back(before);
        copy.add_input(input.ToString());
      }
      *body.graph.add_node() = std::move(copy);
    }
    return body;
  }

  static void SetTypes(proto::NodeDef& node, const std::string& attr, const std::vector<DType>& types) {
    auto& list = *(*node.mutable_attr())[attr].mutable_list();
    for (const DType dtype : types) list.add_type(static_cast<proto::DataType>(dtype));
  }

  // ---- Functions ---------------------------------------------------------------------------------------------------

  // Raises what is in the body, and writes it as a FunctionDef. The first `own` of `types` are arguments "%a…".
  StatusOr<std::string> AddFunction(const std::string& wanted, Body& body, const std::vector<DType>& types, int own,
                                    const std::vector<DType>& result_types) {
    proto::GraphDef& graph = body.graph;
    // Arguments are nodes while the body is raised.
    std::set<std::string> names;
    for (const proto::NodeDef& node : graph.node()) names.insert(node.name());
    std::vector<std::string> arguments;
    std::map<std::string, std::string> named;
    for (size_t i = 0; i < types.size(); ++i) {
      std::string name = fmt::format("arg_{}", i);
      while (!names.insert(name).second) name += "_";
      arguments.push_back(name);
      const int index = static_cast<int>(i);
      named[index < own ? ArgumentRef(index) : CaptureRef(index - own)] = name;
      proto::NodeDef& argument = *graph.add_node();
      argument.set_name(name);
      argument.set_op("_Arg");
      (*argument.mutable_attr())["T"].set_type(static_cast<proto::DataType>(types[i]));
      (*argument.mutable_attr())["index"].set_i(index);
    }
    const auto rename = [&](std::string& input) {
      if (const auto found = named.find(input); found != named.end()) input = found->second;
    };
    for (proto::NodeDef& node : *graph.mutable_node())
      for (std::string& input : *node.mutable_input()) rename(input);
    for (std::string& result : body.results) rename(result);
    // The body is a graph like any other while its arguments are nodes; so nested loops and conditions need nothing of
    // their own.
    ControlFlowRaiser inner(graph, library_, depth_ + 1);
    inner.stateful_ = stateful_;
    RIVULET_RETURN_IF_ERROR(inner.Run(&body.results));
    stateful_ = inner.stateful_;

    std::string name = wanted;
    for (char& c : name)
      if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
    const std::string base = name;
    const auto taken = [&] {
      return std::ranges::any_of(library_.function(),
                                 [&](const proto::FunctionDef& f) { return f.signature().name() == name; });
    };
    for (int n = 1; taken(); ++n) name = fmt::format("{}_{}", base, n);
    proto::FunctionDef function;
    function.mutable_signature()->set_name(name);
    for (size_t i = 0; i < types.size(); ++i) {
      auto* argument = function.mutable_signature()->add_input_arg();
      argument->set_name(arguments[i]);
      argument->set_type(static_cast<proto::DataType>(types[i]));
    }
    const Nodes nodes(graph);
    const std::set<std::string> is_argument(arguments.begin(), arguments.end());
    const auto in_function = [&](const std::string& text) -> StatusOr<std::string> {
      RIVULET_ASSIGN_OR_RETURN(const Ref ref, Parse(text));
      if (ref.control || is_argument.contains(ref.node)) return ref.ToString();
      const int i = nodes.Find(ref.node);
      if (i < 0) return NotFound("function '{}': its input '{}' is not in the graph", name, text);
      return OutputName(nodes.at(i), ref.port);
    };
    bool is_stateful = false;
    for (const proto::NodeDef& node : graph.node()) {
      if (node.op() == "_Arg") continue;
      proto::NodeDef& copy = *function.add_node_def();
      copy = node;
      copy.clear_input();
      for (const std::string& input : node.input()) {
        RIVULET_ASSIGN_OR_RETURN(const std::string translated, in_function(input));
        if (!(input.starts_with('^') && is_argument.contains(input.substr(1)))) copy.add_input(translated);
      }
      const OpDef* op = OpRegistry::Global().Find(node.op());
      is_stateful = is_stateful || (op != nullptr && op->stateful);
    }
    if (is_stateful) stateful_.insert(name);
    for (size_t i = 0; i < body.results.size(); ++i) {
      const std::string result = fmt::format("result_{}", i);
      auto* output = function.mutable_signature()->add_output_arg();
      output->set_name(result);
      output->set_type(static_cast<proto::DataType>(result_types[i]));
      RIVULET_ASSIGN_OR_RETURN((*function.mutable_ret())[result], in_function(body.results[i]));
    }
    *library_.add_function() = std::move(function);
    return name;
  }

  // "node:output:index", as bodies name tensors.
  static StatusOr<std::string> OutputName(const proto::NodeDef& node, int port) {
    const StatusOr<const OpDef*> op = OpRegistry::Global().Get(node.op());
    if (!op.ok()) return NotFound("node '{}': {}", node.name(), Message(op.status()));
    RIVULET_ASSIGN_OR_RETURN(const AttrMap attrs, TypeAttributes(node, **op));
    int first = 0;
    for (const ArgDef& output : (*op)->outputs) {
      int64_t count = 1;
      if (!output.number_attr.empty())
        count = std::get<int64_t>(attrs.at(output.number_attr));
      else if (!output.type_list_attr.empty())
        count = static_cast<int64_t>(std::get<std::vector<DType>>(attrs.at(output.type_list_attr)).size());
      if (port >= first && port < first + count) return fmt::format("{}:{}:{}", node.name(), output.name, port - first);
      first += static_cast<int>(count);
    }
    return InvalidArgument("{} has no output {}", Describe(node), port);
  }

  // ---- Conditions --------------------------------------------------------------------------------------------------

  using Branches = std::map<std::string, int>;  // predicate → the branch that a node is in

  // A predicate by the tensor that it is, seen through Identity.
  // tf.cond passes its predicate through an Identity for each branch, so that one condition shows as several names.
  StatusOr<std::string> Predicate(const Ref& predicate) const {
    Ref at = predicate;
    for (int steps = 0; steps < nodes_.size(); ++steps) {
      const int i = nodes_.Find(at.node);
      if (nodes_.at(i).op() != "Identity") break;
      RIVULET_ASSIGN_OR_RETURN(const std::vector<Ref> inputs, nodes_.Inputs(i));
      if (inputs.empty()) break;
      at = inputs[0];
    }
    return at.ToString();
  }

  // What `ref` depends on, of the branches of its node.
  StatusOr<Branches> BranchesOf(const Ref& ref) {
    const int i = nodes_.Find(ref.node);
    Branches branches = branches_[ref.node];
    if (ref.control || nodes_.at(i).op() != "Switch") return branches;
    RIVULET_ASSIGN_OR_RETURN(const std::vector<Ref> inputs, nodes_.Inputs(i));
    if (inputs.size() < 2) return InvalidArgument("{} has {} inputs, not 2", Describe(nodes_.at(i)), inputs.size());
    RIVULET_ASSIGN_OR_RETURN(const std::string predicate, Predicate(inputs[1]));
    branches[predicate] = ref.port;
    return branches;
  }

  // All Merges of one tf.cond become one If. If each became its own, the branches would run once per result, and with
  // effects more often than they should.
  struct Group {
    std::string predicate;
    Branches around;
    std::vector<int> merges;
  };

  // One walk in topological order tells for every node which branch of which predicate it is in: Switches add to what
  // flows through them, and the Merge of two opposite branches takes it away again. A node that would need both
  // branches of one predicate can never have run.
  Status RaiseConditions() {
    bool any = false;
    for (int i = 0; i < nodes_.size(); ++i) any = any || nodes_.at(i).op() == "Switch" || nodes_.at(i).op() == "Merge";
    if (!any) return absl::OkStatus();
    RIVULET_ASSIGN_OR_RETURN(const std::vector<int> order, BuildOrder(graph_));
    std::map<std::tuple<std::string, std::string, std::string>, Group> groups;
    for (const int i : order) {
      const proto::NodeDef& node = nodes_.at(i);
      RIVULET_ASSIGN_OR_RETURN(const std::vector<Ref> inputs, nodes_.Inputs(i));
      Branches all;
      std::string resolved;
      const bool merge = node.op() == "Merge";
      if (merge) {
        if (inputs.size() < 2 || inputs[0].control || inputs[1].control || (inputs.size() > 2 && !inputs[2].control))
          return Unimplemented("{} merges {} tensors; a condition has two branches", Describe(node), inputs.size());
        RIVULET_ASSIGN_OR_RETURN(const Branches a, BranchesOf(inputs[0]));
        RIVULET_ASSIGN_OR_RETURN(const Branches b, BranchesOf(inputs[1]));
        for (const auto& [predicate, branch] : a) {
          const auto other = b.find(predicate);
          if (other == b.end() || other->second == branch) continue;
          if (!resolved.empty())
            return Unimplemented("{} merges tensors that both '{}' and '{}' tell apart; one condition must",
                                 Describe(node), resolved, predicate);
          resolved = predicate;
        }
        if (resolved.empty())
          return Unimplemented("{} merges '{}' and '{}', which no Switch of one predicate tells apart", Describe(node),
                               node.input(0), node.input(1));
        all = a;
        all.insert(b.begin(), b.end());
        all.erase(resolved);
      } else {
        for (const Ref& input : inputs) {
          RIVULET_ASSIGN_OR_RETURN(const Branches own, BranchesOf(input));
          for (const auto& [predicate, branch] : own) {
            const auto [known, inserted] = all.try_emplace(predicate, branch);
            if (!inserted && known->second != branch)
              return Unimplemented("{} needs both branches of '{}', so it never runs", Describe(node), predicate);
          }
        }
      }
      if (all.size() > kMostPredicates)
        return Unimplemented("{} depends on more than {} conditions at once", Describe(node), kMostPredicates);
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
    RIVULET_RETURN_IF_ERROR(CheckCost(inner_first.size(), "conditions"));
    for (int i = 0; i < nodes_.size(); ++i)
      for (const std::string& input : nodes_.at(i).input())
        if (input.ends_with(":1")) second_outputs_.try_emplace(input.substr(0, input.size() - 2), nodes_.at(i).name());
    for (const Group* group : inner_first) RIVULET_RETURN_IF_ERROR(RaiseCondition(*group));
    return absl::OkStatus();
  }

  Status RaiseCondition(const Group& group) {
    const std::string& predicate = group.predicate;
    Captures captures;
    std::vector<DType> result_types;
    for (const int merge : group.merges) {
      RIVULET_ASSIGN_OR_RETURN(const DType dtype, nodes_.TypeOf({nodes_.at(merge).name(), 0}));
      result_types.push_back(dtype);
    }
    std::vector<Body> bodies;
    // The output 1 of a Switch is the taken one, the branch "then".
    for (const int branch : {1, 0}) {
      const auto inside = [&](int i) {
        const auto found = branches_.find(nodes_.at(i).name());
        return found != branches_.end() && found->second.contains(predicate);
      };
      const auto capture = [&](const Ref& ref) -> StatusOr<std::string> {
        const int i = nodes_.Find(ref.node);
        if (inside(i)) return std::string();
        RIVULET_ASSIGN_OR_RETURN(const Branches own, BranchesOf(ref));
        if (!own.contains(predicate)) return CaptureRef(captures.Add(ref));
        RIVULET_ASSIGN_OR_RETURN(const std::vector<Ref> inputs, nodes_.Inputs(i));
        for (const Ref& input : inputs)
          if (input.control) captures.controls.insert(input.node);
        return CaptureRef(captures.Add(inputs[0]));  // of a Switch
      };
      const auto is_boundary = [&](int) { return false; };
      std::vector<Ref> roots;
      for (const int merge : group.merges) {
        RIVULET_ASSIGN_OR_RETURN(const std::vector<Ref> inputs, nodes_.Inputs(merge));
        RIVULET_ASSIGN_OR_RETURN(const Branches first, BranchesOf(inputs[0]));
        roots.push_back(inputs[first.at(predicate) == branch ? 0 : 1]);
      }
      RIVULET_ASSIGN_OR_RETURN(Body body, Extract(roots, inside, capture, is_boundary, captures));
      bodies.push_back(std::move(body));
    }
    const std::string first_merge = nodes_.at(group.merges[0]).name();
    const size_t slash = first_merge.rfind('/');
    const std::string scope = slash == std::string::npos ? first_merge : first_merge.substr(0, slash);
    std::vector<DType> types;
    for (const Ref& source : captures.sources) {
      RIVULET_ASSIGN_OR_RETURN(const DType dtype, nodes_.TypeOf(source));
      types.push_back(dtype);
    }
    RIVULET_ASSIGN_OR_RETURN(const std::string then_name,
                             AddFunction(scope + "_true", bodies[0], types, 0, result_types));
    RIVULET_ASSIGN_OR_RETURN(const std::string else_name,
                             AddFunction(scope + "_false", bodies[1], types, 0, result_types));
    const bool has_state = stateful_.contains(then_name) || stateful_.contains(else_name);
    RIVULET_ASSIGN_OR_RETURN(const Ref chooses, Parse(predicate));
    RIVULET_ASSIGN_OR_RETURN(const DType chooses_type, nodes_.TypeOf(chooses));
    proto::NodeDef& node = nodes_.Add(scope + "/If", has_state ? "If" : "StatelessIf");
    node.add_input(predicate);
    for (const Ref& source : captures.sources) node.add_input(source.ToString());
    for (const std::string& control : captures.controls) node.add_input("^" + control);
    (*node.mutable_attr())["Tcond"].set_type(static_cast<proto::DataType>(chooses_type));
    SetTypes(node, "Tin", types);
    SetTypes(node, "Tout", result_types);
    (*node.mutable_attr())["then_branch"].mutable_func()->set_name(then_name);
    (*node.mutable_attr())["else_branch"].mutable_func()->set_name(else_name);
    const std::string name = node.name();
    // The new node takes its place in the branches around it, as the Merges had.
    branches_[name] = group.around;
    for (size_t i = 0; i < group.merges.size(); ++i) {
      proto::NodeDef& merge = nodes_.at(group.merges[i]);
      // Which input a Merge took has no counterpart in an If; that it is asked at all is rare.
      if (const auto asks = second_outputs_.find(merge.name()); asks != second_outputs_.end())
        return Unimplemented("{}: '{}' asks which of its inputs it took", Describe(merge), asks->second);
      merge.set_op("Identity");
      merge.clear_attr();
      (*merge.mutable_attr())["T"].set_type(static_cast<proto::DataType>(result_types[i]));
      merge.clear_input();
      merge.add_input(Ref{name, static_cast<int>(i), false}.ToString());
    }
    return absl::OkStatus();
  }

  // ---- What is left ------------------------------------------------------------------------------------------------

  // What was in a branch must go even if somebody could still reach it by name: outside of its branch it would now run
  // always.
  Status Prune(const std::vector<std::string>* results) {
    std::set<int> kept;
    std::vector<int> work;
    const auto keep = [&](int i) {
      if (i >= 0 && kept.insert(i).second) work.push_back(i);
    };
    std::set<std::string> used;
    for (int i = 0; i < nodes_.size(); ++i) {
      RIVULET_ASSIGN_OR_RETURN(const std::vector<Ref> inputs, nodes_.Inputs(i));
      for (const Ref& input : inputs) used.insert(input.node);
    }
    for (int i = 0; i < nodes_.size(); ++i) {
      const proto::NodeDef& node = nodes_.at(i);
      const auto branches = branches_.find(node.name());
      const bool in_branch = branches != branches_.end() && !branches->second.empty();
      const bool plumbing = (node.op() == "Switch" && used.contains(node.name())) || removed_.contains(node.name());
      if (results == nullptr ? !in_branch && !plumbing : node.op() == "_Arg") keep(i);
    }
    if (results != nullptr)
      for (const std::string& result : *results) {
        RIVULET_ASSIGN_OR_RETURN(const Ref ref, Parse(result));
        keep(nodes_.Find(ref.node));
      }
    while (!work.empty()) {
      const int i = work.back();
      work.pop_back();
      if (nodes_.at(i).op() == "Switch")
        return Unimplemented("{}: what it switches reaches no Merge, so it is no tf.cond", Describe(nodes_.at(i)));
      RIVULET_ASSIGN_OR_RETURN(const std::vector<Ref> inputs, nodes_.Inputs(i));
      for (const Ref& input : inputs) keep(nodes_.Find(input.node));
    }
    int count = 0;
    for (int i = 0; i < graph_.node_size(); ++i)
      if (kept.contains(i)) graph_.mutable_node()->SwapElements(count++, i);
    graph_.mutable_node()->DeleteSubrange(count, graph_.node_size() - count);
    return absl::OkStatus();
  }

  proto::GraphDef& graph_;
  Nodes nodes_;
  proto::FunctionDefLibrary& library_;
  int depth_;
  std::vector<Frame> frames_;
  std::map<std::pair<int, std::string>, int> frame_index_;
  std::vector<int> frame_;                             // by node: of its inputs
  std::map<std::string, Branches> branches_;           // by node
  std::map<std::string, std::string> second_outputs_;  // whose second output is used, and by whom
  std::set<std::string> removed_;
  std::set<std::string> stateful_;  // functions
};

}  // namespace

// References are variables', and by now values; the reference forms mean the same.
Status RaiseControlFlow(proto::GraphDef& graph) {
  for (proto::NodeDef& node : *graph.mutable_node())
    for (const std::string_view op : {"RefSwitch", "RefMerge", "RefEnter", "RefExit", "RefNextIteration"})
      if (node.op() == op) node.set_op(std::string(op.substr(3)));
  std::set<std::string_view> names;
  for (const proto::NodeDef& node : graph.node())
    if (!names.insert(node.name()).second) return absl::OkStatus();  // the verifier tells of it
  proto::FunctionDefLibrary library;
  RIVULET_RETURN_IF_ERROR(ControlFlowRaiser(graph, library, 0).Run(nullptr));
  for (proto::FunctionDef& function : *library.mutable_function())
    graph.mutable_library()->add_function()->Swap(&function);
  return absl::OkStatus();
}

}  // namespace rivulet
