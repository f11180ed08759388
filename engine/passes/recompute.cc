// Recomputes values kept for a backward pass right before they are needed again, until
// the peak memory fits the budget (Chen et al., "Training deep nets with sublinear memory
// cost", 2016). Exact: a kernel gives the same bits twice. Peak memory is estimated from
// the order of nodes; views, constants, feeds and reads of variables count as zero.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "engine/passes/pass.h"
#include "engine/program/memory_plan.h"
#include "engine/program/structural_ops.h"
#include "engine/tensor/spec_bytes.h"

namespace rivulet {
namespace {

// Limit of nodes that are recomputed for one value.
constexpr size_t kMaxChain = 8;

bool IsView(const EditNode& node) { return StructuralKind(node.type()) == StructuralOp::kView; }

// The node that owns the memory of `node`'s output. Views share their source's memory, so a value lives until the last
// use of any of its views.
EditNode* Root(EditNode* node) {
  while (IsView(*node) && !node->fed && !node->inputs.empty()) node = node->inputs[0].node;
  return node;
}

bool LiesInArena(const EditNode& node) {
  return !node.fed && !node.outputs.empty() && StructuralKind(node.type()) == StructuralOp::kNone;
}

size_t BytesOf(const EditNode& node) {
  size_t bytes = 0;
  for (const TensorSpec& output : node.outputs) bytes += RoundUp64(ValueBytes(output));
  return bytes;
}

// A rough estimate; only the order of costs matters.
double FlopsOf(const EditNode& node) {
  const auto elements = [](const Shape& shape) { return static_cast<double>(shape.elements()); };
  const double out = elements(node.outputs[0].shape);
  const std::string_view op = node.type();
  if (op.find("Conv") != std::string_view::npos && node.inputs.size() >= 2) {
    const Shape& filter = node.inputs[1].shape();
    const double channels = filter.rank() > 0 ? static_cast<double>(filter.dim(filter.rank() - 1)) : 1;
    return 2 * out * elements(filter) / std::max(1.0, channels);
  }
  if (op.find("MatMul") != std::string_view::npos && node.inputs.size() >= 2) {
    const double product = elements(node.inputs[0].shape()) * elements(node.inputs[1].shape());
    return 2 * std::sqrt(std::max(0.0, product * out));  // m·k · k·n · m·n = (m·k·n)²
  }
  double in = 0;
  for (const Edge& input : node.inputs)
    if (input.dtype() != DType::kResource) in += elements(input.shape());
  return in + out;
}

class Recomputation {
 public:
  Recomputation(GraphEditor& graph, PassContext& context) : graph_(graph), context_(context) {}

  // Greedy, one value per round with new measurements: each copy moves the peak, so a plan for many values at once
  // would be outdated.
  void Run() {
    const size_t budget = context_.options.memory_budget_bytes;
    // Every round removes a value from the peak, so the number of rounds is limited by that of values.
    for (size_t round = graph_.size(); round > 0; --round) {
      Measure();
      if (live_.empty() || live_[peak_] <= budget || !RecomputeBest()) return;
    }
  }

 private:
  struct Life {
    int first = 0, last = 0;
    size_t bytes = 0;
    std::vector<int> uses;  // positions, ascending
  };
  struct Candidate {
    EditNode* node = nullptr;
    int again = 0;    // the position before which it is recomputed
    double gain = 0;  // bytes per operation
  };

  int At(const EditNode* node) const { return position_.at(node); }

  void Measure() {
    nodes_ = graph_.Nodes();
    position_.clear();
    lives_.clear();
    for (size_t i = 0; i < nodes_.size(); ++i) position_[nodes_[i]] = static_cast<int>(i);
    for (EditNode* node : nodes_) {
      const int at = At(node);
      if (LiesInArena(*node)) lives_[node] = {at, at, BytesOf(*node), {}};
      for (const Edge& input : node->inputs) {
        const auto life = lives_.find(Root(input.node));
        if (life == lives_.end() || IsView(*node)) continue;
        life->second.last = std::max(life->second.last, at);
        life->second.uses.push_back(at);
      }
    }
    // A gradient that is only assigned is written to its destination (see variable_hazards.h), so it takes no arena
    // memory.
    for (EditNode* node : nodes_) {
      if (node->type() != "AssignVariableOp") continue;
      const auto life = lives_.find(Root(node->inputs[1].node));
      if (life != lives_.end() && life->second.uses.size() == 1) lives_.erase(life);
    }
    std::vector<int64_t> change(nodes_.size() + 1, 0);
    for (const auto& [node, life] : lives_) {
      change[static_cast<size_t>(life.first)] += static_cast<int64_t>(life.bytes);
      change[static_cast<size_t>(life.last) + 1] -= static_cast<int64_t>(life.bytes);
    }
    live_.assign(nodes_.size(), 0);
    int64_t sum = 0;
    peak_ = 0;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      sum += change[i];
      live_[i] = static_cast<size_t>(sum);
      if (live_[i] > live_[peak_]) peak_ = i;
    }
  }

  // The nodes to recompute so that `node` is available at `at`, inputs first;
  // empty if impossible. An input that is still live is read; one that is not must
  // be recomputed too, recursively. State and control edges make it impossible,
  // because an effect must not happen twice and a copy has no control inputs.
  bool Chain(EditNode* node, int at, std::vector<EditNode*>& chain) const {
    if (std::find(chain.begin(), chain.end(), node) != chain.end()) return true;
    if (chain.size() >= kMaxChain || node->op->stateful || node->outputs.size() != 1 || node->fed) return false;
    if (!node->control_inputs.empty()) return false;
    for (const Edge& input : node->inputs) {
      EditNode* root = Root(input.node);
      const auto life = lives_.find(root);
      if (life == lives_.end() || life->second.last >= at) continue;
      if (!Chain(root, at, chain)) return false;
    }
    chain.push_back(node);
    return chain.size() <= kMaxChain;
  }

  // Only values that are idle at the peak qualify: computed before, needed after, and not used at the peak itself. Of
  // these, the one that frees most bytes per operation is chosen.
  bool RecomputeBest() {
    const int peak = static_cast<int>(peak_);
    Candidate best;
    for (EditNode* node : nodes_) {
      const auto found = lives_.find(node);
      if (found == lives_.end() || node->pinned) continue;
      const Life& life = found->second;
      if (life.first >= peak || life.last <= peak || life.bytes == 0) continue;
      if (std::binary_search(life.uses.begin(), life.uses.end(), peak)) continue;
      const int again = *std::upper_bound(life.uses.begin(), life.uses.end(), peak);
      std::vector<EditNode*> chain;
      if (!Chain(node, again, chain)) continue;
      double flops = 1;
      size_t extra = 0;
      for (const EditNode* each : chain) {
        flops += FlopsOf(*each);
        if (each != node) extra += BytesOf(*each);
      }
      // The copy and its chain must not cause a new peak where the value is needed again.
      if (live_[static_cast<size_t>(again)] + extra >= live_[peak_]) continue;
      const double gain = static_cast<double>(life.bytes) / flops;
      if (gain > best.gain) best = {node, again, gain};
    }
    if (best.node == nullptr) return false;
    Recompute(best);
    return true;
  }

  void Recompute(const Candidate& candidate) {
    std::vector<EditNode*> chain;
    Chain(candidate.node, candidate.again, chain);
    const EditNode& beside = *nodes_[static_cast<size_t>(candidate.again)];
    copies_.clear();
    for (EditNode* node : chain) Copy(node, beside);
    // Later users of the value use the copy, through copies of views in between. Earlier users keep the original, whose
    // lifetime now ends with the last of them.
    for (EditNode* user : nodes_) {
      if (At(user) < candidate.again || user->removed || IsView(*user)) continue;
      for (size_t i = 0; i < user->inputs.size(); ++i) {
        if (Root(user->inputs[i].node) != candidate.node) continue;
        graph_.SetInput(*user, i, CopiedEdge(user->inputs[i], beside));
      }
    }
    context_.log.push_back(fmt::format("{}: computed again before '{}' instead of being kept ({} nodes, {} bytes)",
                                       candidate.node->name, beside.name, chain.size(), BytesOf(*candidate.node)));
  }

  Edge CopiedEdge(Edge edge, const EditNode& beside) {
    const auto copied = copies_.find(edge.node);
    if (copied != copies_.end()) return {copied->second, edge.port};
    EditNode* root = Root(edge.node);
    if (root == edge.node || !copies_.contains(root)) return edge;
    return {Copy(edge.node, beside), edge.port};
  }

  EditNode* Copy(EditNode* node, const EditNode& beside) {
    std::vector<Edge> inputs;
    for (const Edge& input : node->inputs) inputs.push_back(CopiedEdge(input, beside));
    EditNode* copy =
        graph_.Add(node->name + "/again", node->type(), std::move(inputs), node->attrs, node->outputs, beside);
    copy->source_line = node->source_line;
    return copies_[node] = copy;
  }

  GraphEditor& graph_;
  PassContext& context_;
  std::vector<EditNode*> nodes_;
  std::unordered_map<const EditNode*, int> position_;
  std::unordered_map<const EditNode*, Life> lives_;
  std::unordered_map<const EditNode*, EditNode*> copies_;
  std::vector<size_t> live_;  // bytes, by position
  size_t peak_ = 0;
};

}  // namespace

Status RecomputeWithinBudget(GraphEditor& graph, PassContext& context) {
  if (context.options.memory_budget_bytes > 0) Recomputation(graph, context).Run();
  return absl::OkStatus();
}

}  // namespace rivulet
