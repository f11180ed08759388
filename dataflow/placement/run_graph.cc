#include "dataflow/placement/run_graph.h"

#include <algorithm>
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
    std::vector<Output> fetched;
    for (const std::string& name : fetches) {
      RIVULET_ASSIGN_OR_RETURN(const Output output, graph_.FindOutput(name));
      fetched.push_back(output);
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
    for (const Output& output : fetched) run_.fetches.push_back(Mapped(output).name());
    run_.targets.assign(targets.begin(), targets.end());
    return absl::OkStatus();
  }

 private:
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
