#include "engine/passes/graph_editor.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>

#include "engine/graph/function_call.h"
#include "engine/program/structural_ops.h"

namespace rivulet {
namespace {

// Control edges that one replacement may add.
// Where many nodes waited for a replaced one that itself waited for many, keeping every wait multiplies; beyond this
// the node simply stays.
constexpr size_t kMaxNewControlEdges = 256;

bool DrawsInFunctions(const Graph& graph, const Node& node) {
  return RunsFunctions(node.type()) &&
         EffectsOfCall(node.type(), node.attrs(), node.inputs().size(), FunctionsOf(graph)).draws;
}

}  // namespace

int EditNode::all_uses() const { return std::accumulate(uses.begin(), uses.end(), control_uses); }

bool GraphEditor::HasOp(std::string_view op) { return OpRegistry::Global().Find(op) != nullptr; }

EditNode* GraphEditor::New(std::string name, std::string_view op, int64_t position) {
  auto node = std::make_unique<EditNode>();
  node->name = std::move(name);
  node->op = OpRegistry::Global().Find(op);
  RIVULET_CHECK(node->op != nullptr, "a pass uses the op {}, which is not registered", op);
  node->position = position;
  node->index = static_cast<int>(nodes_.size());
  names_.insert(node->name);
  ++alive_;
  nodes_.push_back(std::move(node));
  return nodes_.back().get();
}

// The editor begins from the concrete graph and not from the graph, so that passes never ask for a shape that is not
// there, and what is known counts as a Const whoever made it: no pass has to evaluate anything.
StatusOr<GraphEditor> GraphEditor::Create(const ConcreteGraph& graph, const Signature& signature) {
  GraphEditor editor;
  editor.functions_ = graph.graph().functions();
  std::unordered_set<std::string_view> asked_for(signature.targets.begin(), signature.targets.end());
  for (const Output& fetch : graph.fetches()) asked_for.insert(fetch.node->name());
  const auto is_pinned = [&](const Node& node) { return asked_for.contains(node.name()); };

  std::vector<EditNode*> made;  // by node id
  const auto slot = [&](const Node& node) -> EditNode*& {
    const size_t id = static_cast<size_t>(node.id());
    if (made.size() <= id) made.resize(id + 1, nullptr);
    return made[id];
  };
  for (const auto& node : graph.graph().nodes()) editor.names_.insert(node->name());
  // A folded op with several outputs becomes several constants, since a Const has one; they take names of their own,
  // and only the node with one output can keep its.
  std::map<std::pair<const Node*, int>, EditNode*> folded;  // outputs of ops with several
  const auto new_node = [&](const Node& node, std::string_view op) {
    EditNode* edit = editor.New(node.name(), op, node.id());
    edit->source_line = node.source_line();
    edit->device = node.device();
    return edit;
  };
  const auto make_const = [&](EditNode* edit, const Tensor& value) {
    edit->attrs = {{"value", value}, {"dtype", value.dtype()}};
    edit->outputs = {{value.dtype(), value.shape()}};
    edit->uses = {0};
  };
  // The value of `output`, which is known, as a Const of its own.
  const auto const_edge = [&](Output output) -> Edge {
    const Tensor& value = *graph.constant(graph.value(output));
    const bool single = output.node->outputs().size() == 1;
    EditNode*& known = single ? slot(*output.node) : folded[{output.node, output.port}];
    if (known == nullptr) {
      if (single) {
        known = new_node(*output.node, "Const");
      } else {
        known = editor.New(editor.UniqueName(fmt::format("{}/{}", output.node->name(), output.port)), "Const",
                           output.node->id());
      }
      make_const(known, value);
    }
    return {known, 0};
  };
  const auto fed_edge = [&](Output output) -> Edge {
    EditNode*& known = slot(*output.node);
    if (known == nullptr) {
      known = new_node(*output.node, "Placeholder");
      const TensorSpec& spec = graph.spec(graph.value(output));
      known->attrs = {{"dtype", spec.dtype}, {"shape", spec.shape}};
      known->outputs = {spec};
      known->uses = {0};
      known->fed = known->pinned = true;
    }
    return {known, 0};
  };

  const auto wait = [&](EditNode& node, const Node& original) {  // each of its control inputs once, as there
    for (const Node* before : original.control_inputs()) {
      EditNode* waits_for = slot(*before);
      if (waits_for == nullptr) continue;
      node.control_inputs.push_back(waits_for);
      ++waits_for->control_uses;
      waits_for->users.push_back(&node);
    }
  };
  for (const Node* node : graph.schedule()) {
    const bool single = node->outputs().size() == 1;
    if (single && graph.IsFed(*node)) {
      wait(*fed_edge({const_cast<Node*>(node), 0}).node, *node);
      continue;
    }
    for (size_t port = 0; port < node->outputs().size() && !single; ++port) {
      if (graph.feed(graph.value({const_cast<Node*>(node), static_cast<int>(port)})) >= 0)
        // A node of which only some outputs are fed would have to be half a placeholder. It is so rare that the whole
        // graph goes without passes rather than each pass learning of it.
        return Unimplemented("'{}' has several outputs and some of them are fed", node->name());
    }
    const bool constant = graph.IsConstant(*node);
    EditNode* edit = nullptr;
    if (single && constant) {
      edit = const_edge({const_cast<Node*>(node), 0}).node;
    } else if (constant && !is_pinned(*node)) {
      // Its outputs are constants of their own; what waits for it waits for what it waited for.
      edit = new_node(*node, "NoOp");
      slot(*node) = edit;
    } else {
      edit = new_node(*node, node->type());
      slot(*node) = edit;
      edit->attrs = node->attrs();
      const int first = node->outputs().empty() ? 0 : graph.value({const_cast<Node*>(node), 0});
      for (size_t port = 0; port < node->outputs().size(); ++port)
        edit->outputs.push_back(graph.spec(first + static_cast<int>(port)));
      edit->uses.resize(edit->outputs.size(), 0);
      for (const Output& input : node->inputs()) {
        const int value = graph.value(input);
        Edge edge;
        if (graph.constant(value) != nullptr) {
          edge = const_edge(input);
        } else if (graph.feed(value) >= 0 && input.node->outputs().size() == 1) {
          edge = fed_edge(input);
        } else {
          edge = {slot(*input.node), input.port};
          if (edge.node == nullptr || edge.node->outputs.size() <= static_cast<size_t>(edge.port))
            return Unimplemented("'{}' is fed and has several outputs", input.node->name());
        }
        edit->inputs.push_back(edge);
        editor.Use(edit, edge);
      }
      // A random op draws by its place among the random ops of the graph that the user built. The place is fixed here,
      // before anything is removed or merged, so that optimised and plain programs draw the same.
      if (DrawsRandomNumbers(node->op()) || DrawsInFunctions(graph.graph(), *node)) {
        edit->attrs["_random_index"] = int64_t{graph.random_index(*node)};
        edit->attrs.erase("_random_of");
      }
    }
    edit->pinned = edit->pinned || is_pinned(*node);
    wait(*edit, *node);
  }
  // A feed that is fetched as it is, or that nobody uses, is part of the signature all the same.
  // The program's signature names it, and every name is looked for when it is made concrete again.
  for (const Output& fed : graph.fed_outputs()) {
    if (fed.node->outputs().size() == 1) fed_edge(fed);
  }
  for (const Output& fetch : graph.fetches()) {
    EditNode* edit = slot(*fetch.node);
    if (edit == nullptr) return Unimplemented("'{}' is fed and has several outputs", fetch.node->name());
    edit->pinned = true;
  }
  return editor;
}

// The order is made anew whenever it is asked for. Keeping it through every edit would be dearer, and edits are free to
// add a node anywhere: it carries the position of the node that it stands beside, and the edges do the rest. Ties go by
// position, which keeps reads and writes of variables in their order.
std::vector<EditNode*> GraphEditor::Nodes() const {
  struct Later {
    bool operator()(const EditNode* a, const EditNode* b) const {
      return std::pair(a->position, a->index) > std::pair(b->position, b->index);
    }
  };
  std::vector<int> waits(nodes_.size(), 0);
  std::vector<std::vector<EditNode*>> after(nodes_.size());
  std::priority_queue<EditNode*, std::vector<EditNode*>, Later> ready;
  for (const auto& node : nodes_) {
    if (node->removed) continue;
    const auto follow = [&](const EditNode* before) {
      after[static_cast<size_t>(before->index)].push_back(node.get());
      ++waits[static_cast<size_t>(node->index)];
    };
    for (const Edge& input : node->inputs) follow(input.node);
    for (const EditNode* before : node->control_inputs) follow(before);
    if (waits[static_cast<size_t>(node->index)] == 0) ready.push(node.get());
  }
  std::vector<EditNode*> order;
  order.reserve(alive_);
  while (!ready.empty()) {
    EditNode* node = ready.top();
    ready.pop();
    order.push_back(node);
    for (EditNode* next : after[static_cast<size_t>(node->index)]) {
      if (--waits[static_cast<size_t>(next->index)] == 0) ready.push(next);
    }
  }
  return order;
}

const Tensor* GraphEditor::Constant(Edge edge) {
  return edge.node->type() == "Const" ? edge.node->FindAttr<Tensor>("value") : nullptr;
}

// Uses are counted by edges and control edges together: a node that something waits for may not vanish into another,
// even if nobody takes its value.
bool GraphEditor::OnlyUse(Edge edge) {
  const EditNode& node = *edge.node;
  return !node.pinned && !node.op->stateful && node.uses[static_cast<size_t>(edge.port)] == 1 && node.all_uses() == 1;
}

// Users are only ever added; a list that is exact would cost a search at every change of an edge. Whoever walks it
// looks whether the user still uses.
void GraphEditor::Use(EditNode* user, Edge edge) {
  ++edge.node->uses[static_cast<size_t>(edge.port)];
  edge.node->users.push_back(user);
}

void GraphEditor::Release(Edge edge) { --edge.node->uses[static_cast<size_t>(edge.port)]; }

EditNode* GraphEditor::Add(std::string name, std::string_view op, std::vector<Edge> inputs, AttrMap attrs,
                           std::vector<TensorSpec> outputs, const EditNode& beside) {
  EditNode* node = New(UniqueName(name), op, beside.position);
  node->inputs = std::move(inputs);
  node->attrs = std::move(attrs);
  node->outputs = std::move(outputs);
  node->uses.resize(node->outputs.size(), 0);
  node->source_line = beside.source_line;
  node->device = beside.device;
  for (const Edge& input : node->inputs) Use(node, input);
  return node;
}

EditNode* GraphEditor::AddConst(std::string name, Tensor value, const EditNode& beside) {
  const TensorSpec spec{value.dtype(), value.shape()};
  const DType dtype = value.dtype();
  return Add(std::move(name), "Const", {}, {{"value", std::move(value)}, {"dtype", dtype}}, {spec}, beside);
}

void GraphEditor::SetInput(EditNode& node, size_t input, Edge edge) {
  Use(&node, edge);
  Release(node.inputs[input]);
  node.inputs[input] = edge;
}

void GraphEditor::Become(EditNode& node, std::string_view op, std::vector<Edge> inputs, AttrMap attrs) {
  for (const Edge& input : inputs) Use(&node, input);
  for (const Edge& input : node.inputs) Release(input);
  node.op = OpRegistry::Global().Find(op);
  RIVULET_CHECK(node.op != nullptr, "a pass uses the op {}, which is not registered", op);
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
}

void GraphEditor::AddControlInput(EditNode& node, EditNode& before) {
  if (&node == &before) return;
  if (std::find(node.control_inputs.begin(), node.control_inputs.end(), &before) != node.control_inputs.end()) return;
  node.control_inputs.push_back(&before);
  ++before.control_uses;
  before.users.push_back(&node);
}

// What the node waited for must not be lost when it goes: an assignment that it was ordered behind still has to come
// first for its users. Constants hand down their waits too, since a folded node is a Const that may have waited for
// something.
bool GraphEditor::Replace(EditNode& node, Edge edge) {
  if (node.fed || edge.node == &node) return false;
  // What the node waited for, by itself or through its constants.
  std::vector<EditNode*> before = node.control_inputs;
  for (const Edge& input : node.inputs) {
    if (input.node == edge.node || input.node->type() != "Const") continue;
    before.insert(before.end(), input.node->control_inputs.begin(), input.node->control_inputs.end());
  }
  std::erase_if(before, [&](EditNode* waits_for) {
    return std::find(edge.node->control_inputs.begin(), edge.node->control_inputs.end(), waits_for) !=
           edge.node->control_inputs.end();
  });
  if (before.size() * static_cast<size_t>(node.all_uses()) > kMaxNewControlEdges) return false;

  std::vector<EditNode*> users = std::move(node.users);
  node.users.clear();
  // By index, so that the order of new control edges, and with it the graph's bytes, follows from the graph and not
  // from the order of earlier edits.
  std::sort(users.begin(), users.end(), [](const EditNode* a, const EditNode* b) { return a->index < b->index; });
  users.erase(std::unique(users.begin(), users.end()), users.end());
  for (EditNode* user : users) {
    if (user->removed || user == edge.node) {
      node.users.push_back(user);
      continue;
    }
    bool used = false;
    for (size_t i = 0; i < user->inputs.size(); ++i) {
      if (user->inputs[i].node != &node) continue;
      SetInput(*user, i, edge);
      used = true;
    }
    if (std::erase(user->control_inputs, &node) > 0) {
      --node.control_uses;
      AddControlInput(*user, *edge.node);
      used = true;
    }
    if (!used) continue;
    for (EditNode* waits_for : before) AddControlInput(*user, *waits_for);
  }
  // Somebody outside asks for this name.
  if (node.pinned) {
    AttrMap attrs = {{"T", edge.dtype()}};
    Become(node, "Identity", {edge}, std::move(attrs));
  } else if (node.all_uses() == 0) {
    Remove(node);
  }
  return true;
}

void GraphEditor::Remove(EditNode& node) {
  for (const Edge& input : node.inputs) Release(input);
  for (EditNode* before : node.control_inputs) --before->control_uses;
  node.inputs.clear();
  node.control_inputs.clear();
  node.users.clear();
  node.removed = true;
  --alive_;
}

// Backwards, so that one walk takes out whole chains: a node is looked at after all of its users.
int GraphEditor::Prune() {
  const std::vector<EditNode*> nodes = Nodes();
  int removed = 0;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    if ((*node)->pinned || (*node)->all_uses() > 0) continue;
    Remove(**node);
    ++removed;
  }
  return removed;
}

const Function* GraphEditor::FindFunction(std::string_view name) const {
  const auto found = functions_.find(std::string(name));
  return found == functions_.end() ? nullptr : found->second.get();
}

std::string GraphEditor::UniqueName(std::string_view wanted) {
  std::string name(wanted);
  for (int count = 0; names_.contains(name);) name = fmt::format("{}_{}", wanted, ++count);
  names_.insert(name);
  return name;
}

// Through AddNode, which checks and infers every node as if a user had written it. A pass that lies about a shape is
// found here, by its own claim, and not as wrong numbers in a run.
StatusOr<Graph> GraphEditor::Finish() const {
  Graph graph;
  for (const auto& [name, function] : functions_) RIVULET_RETURN_IF_ERROR(graph.AddFunction(function));
  std::vector<Node*> made(nodes_.size(), nullptr);
  for (const EditNode* node : Nodes()) {
    NodeSpec spec{node->name, std::string(node->type()), {}, {}, node->attrs, node->source_line, node->device};
    for (const Edge& input : node->inputs)
      spec.inputs.push_back({made[static_cast<size_t>(input.node->index)], input.port});
    for (const EditNode* before : node->control_inputs)
      spec.control_inputs.push_back(made[static_cast<size_t>(before->index)]);
    StatusOr<Node*> added = graph.AddNode(std::move(spec));
    if (!added.ok()) return Internal("a pass made a node that the graph refuses: {}", Message(added.status()));
    for (size_t port = 0; port < node->outputs.size(); ++port) {
      const TensorSpec& claimed = node->outputs[port];
      const TensorSpec& inferred = (*added)->outputs()[port];
      if (claimed.dtype != inferred.dtype || !Shape::Compatible(claimed.shape, inferred.shape)) {
        return Internal("a pass made '{}', whose output {} is {}{} and was said to be {}{}", node->name, port,
                        Name(inferred.dtype), inferred.shape.ToString(), Name(claimed.dtype), claimed.shape.ToString());
      }
    }
    made[static_cast<size_t>(node->index)] = *added;
  }
  if (graph.nodes().size() != alive_) return Internal("a pass closed a cycle");
  return graph;
}

}  // namespace rivulet
