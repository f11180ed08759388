// Replaces handwritten logarithms of softmax: LogSoftmax keeps values that softmax rounds to zero, and its gradient has
// no division. A handwritten cross-entropy becomes the op of that name.
//
//   Log(Softmax(x))                                     → LogSoftmax(x)
//   (v - Σ v·s) · s  with s = Softmax(x), v = g / s     → g - Σ g · s           (its gradient)
//   -Σ labels · LogSoftmax(x) over the last axis        → SoftmaxCrossEntropyWithLogits(x, labels)
#include <algorithm>

#include "engine/passes/constant_values.h"
#include "engine/passes/pass.h"

namespace rivulet {
namespace {

bool Is(Edge edge, std::string_view op) { return !edge.node->fed && edge.node->type() == op; }

// Whether `node` sums its input over the last axis.
bool SumsLastAxis(const EditNode& node, bool keep_dims) {
  if (node.fed || node.type() != "Sum" || node.inputs.size() != 2) return false;
  const bool* keeps = node.FindAttr<bool>("keep_dims");
  const auto axes = ConstantIntegers(node.inputs[1]);
  const int64_t rank = node.inputs[0].shape().rank();
  return keeps != nullptr && *keeps == keep_dims && axes && axes->size() == 1 &&
         ((*axes)[0] == -1 || (*axes)[0] == rank - 1);
}

// The other operand of a commutative node with the operand `known`; a null edge if it has no such operand.
Edge Other(const EditNode& node, Edge known) {
  if (node.inputs[0] == known) return node.inputs[1];
  if (node.inputs[1] == known) return node.inputs[0];
  return {};
}

// Written by hand, log(softmax(x)) is -inf where softmax rounds to zero, and its
// gradient divides by that zero: training ends in NaN for a reason that the model does
// not show. The patterns are those that users write and that gradients make of them. The
// results are numerically better and not equal, so only this pass declares a tolerance.
class SoftmaxLoss {
 public:
  SoftmaxLoss(GraphEditor& graph, PassContext& context) : graph_(graph), context_(context) {}

  void Visit(EditNode& node) {
    if (node.fed) return;
    if (node.type() == "Mul") {
      Gradient(node);
    } else if (node.type() == "Log") {
      Logarithm(node);
    } else if (node.type() == "Neg") {
      CrossEntropy(node);
    }
  }

 private:
  void Logarithm(EditNode& node) {
    const Edge softmax = node.inputs[0];
    if (!Is(softmax, "Softmax")) return;
    context_.log.push_back(fmt::format("{}: Log of Softmax is LogSoftmax", node.name));
    graph_.Become(node, "LogSoftmax", {softmax.node->inputs[0]}, {{"T", softmax.dtype()}});
  }

  // (v - Σ v·s) · s, the form of Softmax's gradient, with v = g /
  // s. The division cancels: v·s is g, so the result is g - s · Σ
  // g, and no element is divided by a probability that may be zero.
  void Gradient(EditNode& node) {
    for (const size_t side : {0, 1}) {
      const Edge s = node.inputs[side], difference = node.inputs[1 - side];
      if (!Is(s, "Softmax") || !Is(difference, "Sub") || !GraphEditor::OnlyUse(difference)) continue;
      const Edge v = difference.node->inputs[0], sum = difference.node->inputs[1];
      if (!SumsLastAxis(*sum.node, /*keep_dims=*/true) || !GraphEditor::OnlyUse(sum)) continue;
      const Edge product = sum.node->inputs[0];
      if (!Is(product, "Mul") || Other(*product.node, s) != v) continue;
      const Edge g = Dividend(v, s);
      if (g.node == nullptr || g.spec() != s.spec()) continue;
      context_.log.push_back(fmt::format("{}: the gradient of LogSoftmax, without division", node.name));
      const Edge total =
          graph_.Add(node.name + "/sum", "Sum", {g, sum.node->inputs[1]}, sum.node->attrs, sum.node->outputs, node)
              ->output();
      const Edge share =
          graph_.Add(node.name + "/share", "Mul", {total, s}, {{"T", s.dtype()}}, {s.spec()}, node)->output();
      graph_.Become(node, "Sub", {g, share}, {{"T", s.dtype()}});
      return;
    }
  }

  // g if `v` is g / s, written as a quotient or as a product with the reciprocal.
  static Edge Dividend(Edge v, Edge s) {
    if (Is(v, "RealDiv") && v.node->inputs[1] == s) return v.node->inputs[0];
    if (!Is(v, "Mul")) return {};
    for (const size_t side : {0, 1}) {
      const Edge reciprocal = v.node->inputs[side];
      if ((Is(reciprocal, "Reciprocal") || Is(reciprocal, "Inv")) && reciprocal.node->inputs[0] == s)
        return v.node->inputs[1 - side];
    }
    return {};
  }

  void CrossEntropy(EditNode& node) {
    const Edge sum = node.inputs[0];
    if (!SumsLastAxis(*sum.node, /*keep_dims=*/false) || !GraphEditor::OnlyUse(sum)) return;
    const Edge product = sum.node->inputs[0];
    if (!Is(product, "Mul") || !GraphEditor::OnlyUse(product)) return;
    for (const size_t side : {0, 1}) {
      // The op needs the logits of a batch, so only matrices qualify; log-probabilities with other readers are not
      // replaced, or they would be computed twice.
      const Edge logarithm = product.node->inputs[side], labels = product.node->inputs[1 - side];
      if (!Is(logarithm, "LogSoftmax") || !GraphEditor::OnlyUse(logarithm)) continue;
      const Edge logits = logarithm.node->inputs[0];
      if (logits.shape().rank() != 2 || labels.spec() != logits.spec()) continue;
      context_.log.push_back(fmt::format("{}: this sum is a cross-entropy of logits", node.name));
      EditNode* loss = graph_.Add(node.name + "/cross_entropy", "SoftmaxCrossEntropyWithLogits", {logits, labels},
                                  {{"T", logits.dtype()}}, {node.outputs[0], logits.spec()}, node);
      graph_.Replace(node, loss->output());
      return;
    }
  }

  GraphEditor& graph_;
  PassContext& context_;
};

}  // namespace

Status RecogniseSoftmaxLoss(GraphEditor& graph, PassContext& context) {
  SoftmaxLoss loss(graph, context);
  for (EditNode* node : graph.Nodes())
    if (!node->removed) loss.Visit(*node);
  return absl::OkStatus();
}

}  // namespace rivulet
