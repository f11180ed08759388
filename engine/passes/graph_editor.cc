#include "engine/passes/graph_editor.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <queue>

#include "engine/graph/function_call.h"
#include "engine/program/structural_ops.h"

namespace rivulet {
namespace {

// Limit of control edges that one replacement may add. If many
// nodes wait for a replaced one that waits for many, the number
// of edges multiplies; above the limit the node is not replaced.
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

// Creates an editor's initial nodes from the concrete graph, so that all shapes are known, and every known value is a
// Const, whatever node computed it: passes never evaluate anything.
class GraphEditor::Importer {
 public:
  Importer(const ConcreteGraph& graph, const Signature& signature, GraphEditor& editor)
      : graph_(graph), editor_(editor), asked_for_(signature.targets.begin(), signature.targets.end()) {
    for (const Output& fetch : graph.fetches()) asked_for_.insert(fetch.node->name());
    for (const auto& node : graph.graph().nodes()) editor_.names_.insert(node->name());
  }

  Status Import() {
    for (const Node* node : graph_.schedule()) RIVULET_RETURN_IF_ERROR(ImportNode(*node));
    // A feed that is fetched directly, or unused, is still part of the signature, and its name must exist when the
    // graph becomes concrete again.
    for (const Output& fed : graph_.fed_outputs()) {
      if (fed.node->outputs().size() == 1) FedEdge(fed);
    }
    for (const Output& fetch : graph_.fetches()) {
      EditNode* edit = Slot(*fetch.node);
      if (edit == nullptr) return Unimplemented("'{}' is fed and has several outputs", fetch.node->name());
      edit->pinned = true;
    }
    return absl::OkStatus();
  }

 private:
  Status ImportNode(const Node& node) {
    const Output first{const_cast<Node*>(&node), 0};
    const bool single = node.outputs().size() == 1;
    if (single && graph_.IsFed(node)) {
      Wait(*FedEdge(first).node, node);
      return absl::OkStatus();
    }
    for (size_t port = 0; port < node.outputs().size() && !single; ++port) {
      if (graph_.feed(graph_.value({first.node, static_cast<int>(port)})) >= 0)
        // A node with only some outputs fed would have to be partly a placeholder. This is so rare that the whole graph
        // is compiled without passes, instead of handling it in each pass.
        return Unimplemented("'{}' has several outputs and some of them are fed", node.name());
    }
    const bool constant = graph_.IsConstant(node);
    EditNode* edit = nullptr;
    if (single && constant) {
      edit = ConstEdge(first).node;
    } else if (constant && !IsPinned(node)) {
      // Its outputs are separate constants; its control dependents wait for its own control inputs.
      edit = Slot(node) = NewNode(node, "NoOp");
    } else {
      edit = Slot(node) = NewNode(node, node.type());
      RIVULET_RETURN_IF_ERROR(ImportComputed(node, *edit));
    }
    edit->pinned = edit->pinned || IsPinned(node);
    Wait(*edit, node);
    return absl::OkStatus();
  }

  // For a node that computes during a run: attributes, outputs, inputs.
  Status ImportComputed(const Node& node, EditNode& edit) {
    edit.attrs = node.attrs();
    const int first = node.outputs().empty() ? 0 : graph_.value({const_cast<Node*>(&node), 0});
    for (size_t port = 0; port < node.outputs().size(); ++port)
      edit.outputs.push_back(graph_.spec(first + static_cast<int>(port)));
    edit.uses.resize(edit.outputs.size(), 0);
    for (const Output& input : node.inputs()) {
      RIVULET_ASSIGN_OR_RETURN(const Edge edge, EdgeOf(input));
      edit.inputs.push_back(edge);
      editor_.Use(&edit, edge);
    }
    // A random op draws by its position among the random ops of the user's graph. The position is fixed here, before
    // anything is removed or merged, so that optimised and plain programs draw the same numbers.
    if (DrawsRandomNumbers(node.op()) || DrawsInFunctions(graph_.graph(), node)) {
      edit.attrs["_random_index"] = int64_t{graph_.random_index(node)};
      edit.attrs.erase("_random_of");
    }
    return absl::OkStatus();
  }

  StatusOr<Edge> EdgeOf(const Output& output) {
    const int value = graph_.value(output);
    if (graph_.constant(value) != nullptr) return ConstEdge(output);
    if (graph_.feed(value) >= 0 && output.node->outputs().size() == 1) return FedEdge(output);
    const Edge edge = {Slot(*output.node), output.port};
    if (edge.node == nullptr || edge.node->outputs.size() <= static_cast<size_t>(edge.port))
      return Unimplemented("'{}' is fed and has several outputs", output.node->name());
    return edge;
  }

  // The known value of `output` as a separate Const. A folded op with several outputs becomes several constants with
  // new names, because a Const has one output; only a node with one output keeps its name.
  Edge ConstEdge(const Output& output) {
    const Tensor& value = *graph_.constant(graph_.value(output));
    const bool single = output.node->outputs().size() == 1;
    EditNode*& known = single ? Slot(*output.node) : folded_[{output.node, output.port}];
    if (known != nullptr) return {known, 0};
    known = single ? NewNode(*output.node, "Const")
                   : editor_.New(editor_.UniqueName(fmt::format("{}/{}", output.node->name(), output.port)), "Const",
                                 output.node->id());
    known->attrs = {{"value", value}, {"dtype", value.dtype()}};
    known->outputs = {{value.dtype(), value.shape()}};
    known->uses = {0};
    return {known, 0};
  }

  Edge FedEdge(const Output& output) {
    EditNode*& known = Slot(*output.node);
    if (known != nullptr) return {known, 0};
    known = NewNode(*output.node, "Placeholder");
    const TensorSpec& spec = graph_.spec(graph_.value(output));
    known->attrs = {{"dtype", spec.dtype}, {"shape", spec.shape}};
    known->outputs = {spec};
    known->uses = {0};
    known->fed = known->pinned = true;
    return {known, 0};
  }

  EditNode* NewNode(const Node& node, std::string_view op) {
    EditNode* edit = editor_.New(node.name(), op, node.id());
    edit->source_line = node.source_line();
    edit->device = node.device();
    return edit;
  }

  // Adds each control input of `original`, once.
  void Wait(EditNode& node, const Node& original) {
    for (const Node* before : original.control_inputs()) {
      EditNode* waits_for = Slot(*before);
      if (waits_for == nullptr) continue;
      node.control_inputs.push_back(waits_for);
      ++waits_for->control_uses;
      waits_for->users.push_back(&node);
    }
  }

  bool IsPinned(const Node& node) const { return asked_for_.contains(node.name()); }

  // The replacement of a node, or nullptr. Valid until the next call.
  EditNode*& Slot(const Node& node) {
    const size_t id = static_cast<size_t>(node.id());
    if (made_.size() <= id) made_.resize(id + 1, nullptr);
    return made_[id];
  }

  const ConcreteGraph& graph_;
  GraphEditor& editor_;
  std::unordered_set<std::string_view> asked_for_;           // fetches and targets
  std::vector<EditNode*> made_;                              // by node id
  std::map<std::pair<const Node*, int>, EditNode*> folded_;  // outputs of ops with several outputs
};

StatusOr<GraphEditor> GraphEditor::Create(const ConcreteGraph& graph, const Signature& signature) {
  GraphEditor editor;
  editor.functions_ = graph.graph().functions();
  RIVULET_RETURN_IF_ERROR(Importer(graph, signature, editor).Import());
  return editor;
}

// Computes the order at each call. Updating it at every edit would be slower, and edits may add a node anywhere: a new
// node has the position of its neighbour, and edges do the rest. Ties are broken by position, which keeps reads and
// writes of variables in order.
//
// Of all orders that the edges allow, this is the smallest by position and index. Nearly all
// nodes are in order when sorted by these two, in linear time, because positions are ids of the
// original graph. So a scan takes each node in turn, and sets aside only nodes that wait for a
// later one, such as a new node beside its reader. A queue of all ready nodes would compare
// positions at every step, and a list of successors per node would be an allocation each.
std::vector<EditNode*> GraphEditor::Nodes() const {
  const std::vector<EditNode*> sorted = ByPosition();
  std::vector<size_t> rank(nodes_.size());
  for (size_t i = 0; i < sorted.size(); ++i) rank[static_cast<size_t>(sorted[i]->index)] = i;
  const auto each_edge = [&](size_t to, const auto& visit) {
    for (const Edge& input : sorted[to]->inputs) visit(rank[static_cast<size_t>(input.node->index)]);
    for (const EditNode* before : sorted[to]->control_inputs) visit(rank[static_cast<size_t>(before->index)]);
  };
  // Successors of node i: followers[first[i]] to followers[first[i + 1] - 1].
  std::vector<size_t> waits(sorted.size(), 0), first(sorted.size() + 1, 0);
  for (size_t to = 0; to < sorted.size(); ++to) {
    each_edge(to, [&](size_t from) {
      ++waits[to];
      ++first[from + 1];
    });
  }
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<size_t> followers(first.back()), next = first;
  for (size_t to = 0; to < sorted.size(); ++to) each_edge(to, [&](size_t from) { followers[next[from]++] = to; });

  std::vector<EditNode*> order;
  order.reserve(sorted.size());
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> late;  // were skipped, and are ready now
  size_t at = 0;
  const auto take = [&](size_t i) {
    order.push_back(sorted[i]);
    for (size_t k = first[i]; k < first[i + 1]; ++k)
      if (--waits[followers[k]] == 0 && followers[k] < at) late.push(followers[k]);
  };
  const auto take_late = [&] {
    while (!late.empty()) {
      const size_t i = late.top();
      late.pop();
      take(i);
    }
  };
  for (; at < sorted.size(); ++at) {
    if (waits[at] == 0) take(at);
    take_late();
  }
  return order;
}

// The remaining nodes, by position and then by index.
std::vector<EditNode*> GraphEditor::ByPosition() const {
  int64_t last = 0;
  for (const auto& node : nodes_) last = std::max(last, node->position);
  std::vector<size_t> next(static_cast<size_t>(last) + 2, 0);  // index of the next node of each position
  for (const auto& node : nodes_)
    if (!node->removed) ++next[static_cast<size_t>(node->position) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<EditNode*> sorted(next.back());
  for (const auto& node : nodes_)
    if (!node->removed) sorted[next[static_cast<size_t>(node->position)]++] = node.get();
  return sorted;
}

const Tensor* GraphEditor::Constant(Edge edge) {
  return edge.node->type() == "Const" ? edge.node->FindAttr<Tensor>("value") : nullptr;
}

// Counts data and control edges together: a node with a control dependent must not be merged into another, even if its
// value is unused.
bool GraphEditor::OnlyUse(Edge edge) {
  const EditNode& node = *edge.node;
  return !node.pinned && !node.op->stateful && node.uses[static_cast<size_t>(edge.port)] == 1 && node.all_uses() == 1;
}

// Users are only added; an exact list would need a search at every change of an edge. Readers of the list check whether
// a user still uses the node.
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

// Keeps the node's dependencies when it is removed: an assignment before
// it must still precede its users. Constants pass on their dependencies
// too, because a folded node is a Const with control inputs.
bool GraphEditor::Replace(EditNode& node, Edge edge) {
  if (node.fed || edge.node == &node) return false;
  // Dependencies of the node, directly or through its constants.
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
  // By index, so that the order of new control edges, and so the graph's bytes, depends on the graph and not on the
  // order of earlier edits.
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
  // The name is requested by the signature.
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

// Backwards, so that one pass removes whole chains: a node is visited after all of its users.
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

// Uses AddNode, which checks and infers every node as for user code. A wrong shape from a pass is detected here,
// instead of giving wrong numbers in a run.
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
        return Internal("a pass made '{}', whose output {} is {}{} and was declared as {}{}", node->name, port,
                        Name(inferred.dtype), inferred.shape.ToString(), Name(claimed.dtype), claimed.shape.ToString());
      }
    }
    made[static_cast<size_t>(node->index)] = *added;
  }
  if (graph.nodes().size() != alive_) return Internal("a pass closed a cycle");
  return graph;
}

}  // namespace rivulet
