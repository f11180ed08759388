#include "dataflow/placement/run_graph.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>

#include "engine/graph/function.h"
#include "engine/graph/function_call.h"

namespace rivulet {
namespace {

class Pruner {
 public:
  Pruner(const Graph& graph, RunGraph& run) : graph_(graph), run_(run), needed_(graph.nodes().size()) {}

  Status Prune(std::span<const std::string> feeds, std::span<const std::string> fetches,
               std::span<const std::string> targets) {
    for (const std::string& name : feeds) {
      RIVULET_ASSIGN_OR_RETURN(const Output output, graph_.FindOutput(name));
      if (std::find(feeds_.begin(), feeds_.end(), output) != feeds_.end())
        return InvalidArgument("tensor '{}' is fed twice", name);
      feeds_.push_back(output);
    }
    std::vector<Node*> roots;
    std::vector<Fetched> fetched;
    for (const std::string& name : fetches) {
      if (Node* const read = ReadBy(name); read != nullptr) {
        fetched.push_back({{}, read});
        roots.push_back(read);
        continue;
      }
      RIVULET_ASSIGN_OR_RETURN(const Output output, graph_.FindOutput(name));
      fetched.push_back({output, nullptr});
      if (!IsFed(output)) roots.push_back(output.node);
    }
    for (const std::string& name : targets) {
      Node* node = graph_.Find(name);
      if (node == nullptr) return graph_.FindOutput(name).status();  // the error names the nearest
      roots.push_back(node);
    }
    Need(roots);
    for (const auto& [name, function] : graph_.functions()) RIVULET_RETURN_IF_ERROR(run_.graph.AddFunction(function));
    random_index_ = RandomIndices(graph_);
    // Feeds first: a Placeholder takes its producer's name if the producer itself is not needed.
    for (const Output& feed : feeds_) {
      std::string name = feed.node->name();
      if (feed.port > 0 || Needed(feed.node)) name += fmt::format("/fed_{}", feed.port);
      while (run_.graph.Find(name) != nullptr || (name != feed.node->name() && graph_.Find(name) != nullptr))
        name += "_";
      RIVULET_ASSIGN_OR_RETURN(Node * made, run_.graph.AddNode({name,
                                                                "Placeholder",
                                                                {},
                                                                {},
                                                                {{"dtype", feed.dtype()}, {"shape", feed.shape()}},
                                                                feed.node->source_line(),
                                                                feed.node->device()}));
      placeholders_.push_back(made);
      run_.feeds.push_back(name);
    }
    for (Node* node : graph_.TopologicalOrder(roots))
      if (Needed(node)) RIVULET_RETURN_IF_ERROR(Copy(*node));
    for (const Fetched& fetch : fetched) {
      if (fetch.read == nullptr) {
        run_.fetches.push_back(Mapped(fetch.output).name());
        continue;
      }
      RIVULET_ASSIGN_OR_RETURN(const Node* const read, Read(*fetch.read));
      run_.fetches.push_back(read->name());
    }
    run_.targets.assign(targets.begin(), targets.end());
    return absl::OkStatus();
  }

 private:
  struct Fetched {
    Output output;
    Node* read;  // a variable, or its update, whose value is fetched; null: `output` is
  };

  // The variable or the update that `name` names where a value is meant: a reference that TensorFlow's clients of
  // version 1 fetch, to a variable or as the result of an assignment. Null: another tensor.
  Node* ReadBy(const std::string& name) const {
    static const std::set<std::string_view> kUpdates = {"AssignVariableOp", "AssignAddVariableOp",
                                                        "AssignSubVariableOp", "ResourceApplyGradientDescent",
                                                        "ResourceApplyMomentum"};
    Node* const node = graph_.Find(name.ends_with(":0") ? name.substr(0, name.size() - 2) : name);
    if (node == nullptr) return nullptr;
    if (node->type() == "VarHandleOp") return IsFed(node->output()) ? nullptr : node;
    if (!kUpdates.contains(node->type()) || node->input(0).node->type() != "VarHandleOp") return nullptr;
    return IsFed(node->input(0)) ? nullptr : node;
  }

  // Reads the variable after `node`.
  StatusOr<Node*> Read(const Node& node) {
    const bool update = node.type() != "VarHandleOp";
    const Node& variable = update ? *node.input(0).node : node;
    std::string name = node.name() + "/fetched";
    while (run_.graph.Find(name) != nullptr || graph_.Find(name) != nullptr) name += "_";
    NodeSpec spec{name,
                  "ReadVariableOp",
                  {copies_.at(&variable)->output()},
                  {},
                  {{"dtype", variable.attr<DType>("dtype")}},
                  node.source_line(),
                  variable.device()};
    if (update) spec.control_inputs.push_back(copies_.at(&node));
    return run_.graph.AddNode(std::move(spec));
  }

  bool IsFed(const Output& output) const { return std::find(feeds_.begin(), feeds_.end(), output) != feeds_.end(); }
  bool Needed(const Node* node) const { return needed_[static_cast<size_t>(node->id())]; }

  void Need(std::vector<Node*> stack) {
    while (!stack.empty()) {
      Node* node = stack.back();
      stack.pop_back();
      if (Needed(node)) continue;
      needed_[static_cast<size_t>(node->id())] = true;
      for (const Output& input : node->inputs())
        if (!IsFed(input)) stack.push_back(input.node);
      for (Node* before : node->control_inputs())
        if (!FedWhole(before)) stack.push_back(before);
    }
  }

  // Whether all outputs are fed, so that the node need not run.
  bool FedWhole(Node* node) const {
    for (size_t port = 0; port < node->outputs().size(); ++port)
      if (!IsFed(node->output(static_cast<int>(port)))) return false;
    return !node->outputs().empty();
  }

  Output Mapped(const Output& output) const {
    const auto feed = std::find(feeds_.begin(), feeds_.end(), output);
    if (feed != feeds_.end()) return placeholders_[static_cast<size_t>(feed - feeds_.begin())]->output();
    return copies_.at(output.node)->output(output.port);
  }

  Status Copy(const Node& node) {
    NodeSpec spec{node.name(), std::string(node.type()), {}, {}, node.attrs(), node.source_line(), node.device()};
    for (const Output& input : node.inputs()) spec.inputs.push_back(Mapped(input));
    for (Node* before : node.control_inputs())
      if (!FedWhole(before)) spec.control_inputs.push_back(copies_.at(before));
    if (const int index = random_index_[static_cast<size_t>(node.id())]; index >= 0)
      spec.attrs["_random_index"] = int64_t{index};
    RIVULET_ASSIGN_OR_RETURN(copies_[&node], run_.graph.AddNode(std::move(spec)));
    return absl::OkStatus();
  }

  const Graph& graph_;
  RunGraph& run_;
  std::vector<bool> needed_;
  std::vector<Output> feeds_;
  std::vector<Node*> placeholders_;
  std::unordered_map<const Node*, Node*> copies_;
  std::vector<int> random_index_;  // by node id
};

}  // namespace

StatusOr<RunGraph> PruneForRun(const Graph& graph, std::span<const std::string> feeds,
                               std::span<const std::string> fetches, std::span<const std::string> targets) {
  RunGraph run;
  RIVULET_RETURN_IF_ERROR(Pruner(graph, run).Prune(feeds, fetches, targets));
  return run;
}

}  // namespace rivulet
