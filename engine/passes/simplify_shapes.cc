// Removes Identity, and data movement ops without effect.
#include <algorithm>

#include "engine/passes/constant_values.h"
#include "engine/passes/pass.h"
#include "engine/program/structural_ops.h"

namespace rivulet {
namespace {

Tensor ShapeTensor(const Shape& shape) {
  Tensor tensor(DType::kInt64, Shape{shape.rank()});
  std::copy(shape.dims().begin(), shape.dims().end(), tensor.flat<int64_t>().begin());
  return tensor;
}

bool IsReshape(std::string_view op) { return op == "Reshape" || op == "Squeeze" || op == "ExpandDims"; }

// Whether the cast preserves every value, so that casting back gives the same bits.
bool Widens(DType from, DType to) {
  switch (from) {
    case DType::kFloat32:
      return to == DType::kFloat64;
    case DType::kFloat16:
    case DType::kBFloat16:
      return to == DType::kFloat32 || to == DType::kFloat64;
    case DType::kInt32:
      return to == DType::kInt64 || to == DType::kFloat64;
    case DType::kBool:
    case DType::kUint8:
      return to == DType::kInt32 || to == DType::kInt64 || to == DType::kFloat32 || to == DType::kFloat64;
    default:
      return false;
  }
}

class ShapeSimplifier {
 public:
  ShapeSimplifier(GraphEditor& graph, PassContext& context) : graph_(graph), context_(context) {}

  // Redirects each consumer of an IdentityN to the corresponding input.
  void SkipIdentityN(EditNode& user) {
    for (size_t i = 0; i < user.inputs.size(); ++i) {
      const Edge in = user.inputs[i];
      if (in.node->type() != "IdentityN" || in.node->fed || !in.node->control_inputs.empty()) continue;
      graph_.SetInput(user, i, in.node->inputs[static_cast<size_t>(in.port)]);
      context_.log.push_back(fmt::format("{}: input {} skips '{}', which passes it on", user.name, i, in.node->name));
    }
  }

  void Visit(EditNode& node) {
    if (node.fed || node.outputs.size() != 1 || node.inputs.empty()) return;
    const std::string_view op = node.type();
    if (IsPassThrough(node)) {
      Replace(node, node.inputs[0], "passes its input on");
    } else if (IsReshape(op)) {
      VisitReshape(node);
    } else if (op == "Transpose") {
      VisitTranspose(node);
    } else if (op == "Cast") {
      VisitCast(node);
    } else if (MovesNothing(node)) {
      Replace(node, node.inputs[0], "gives all of its input");
    } else if (op == "ConcatV2") {
      VisitConcat(node);
    }
  }

 private:
  void Replace(EditNode& node, Edge edge, std::string_view why) {
    if (node.pinned && node.type() == "Identity") return;  // it would become an Identity again
    const std::string line = fmt::format("{}: this {} {}", node.name, node.type(), why);
    if (graph_.Replace(node, edge)) context_.log.push_back(line);
  }

  static bool IsPassThrough(const EditNode& node) {
    const std::string_view op = node.type();
    if (op == "Identity" || op == "StopGradient" || op == "PreventGradient" || op == "Snapshot" ||
        op == "PlaceholderWithDefault" || op == "EnsureShape") {
      return node.inputs[0].spec() == node.outputs[0];
    }
    return false;
  }

  // A slice, tile, pad or broadcast that returns its input. Equal shapes are not sufficient for other ops: a strided
  // slice may reverse an axis.
  static bool MovesNothing(const EditNode& node) {
    const std::string_view op = node.type();
    return node.inputs[0].spec() == node.outputs[0] &&
           (op == "Slice" || op == "Tile" || op == "BroadcastTo" || op == "Pad" || op == "PadV2");
  }

  void VisitReshape(EditNode& node) {
    const Edge in = node.inputs[0];
    if (in.spec() == node.outputs[0]) return Replace(node, in, "keeps the shape");
    if (!IsReshape(in.node->type()) || in.node->fed || in.node->inputs.empty()) return;
    const Edge source = in.node->inputs[0];
    if (source.spec() == node.outputs[0]) return Replace(node, source, "undoes another");
    if (node.type() != "Reshape" || GraphEditor::Constant(node.inputs[1]) == nullptr) {
      Reshape(node, source);
    } else {
      graph_.SetInput(node, 0, source);
    }
    context_.log.push_back(fmt::format("{}: reshapes '{}' at once", node.name, source.node->name));
  }

  void Reshape(EditNode& node, Edge source) {
    const Edge shape = graph_.AddConst(node.name + "/shape", ShapeTensor(node.outputs[0].shape), node)->output();
    graph_.Become(node, "Reshape", {source, shape}, {{"T", source.dtype()}, {"Tshape", DType::kInt64}});
  }

  void VisitTranspose(EditNode& node) {
    const Edge in = node.inputs[0];
    const auto order = ConstantPermutation(node.inputs[1], in.shape().rank());
    if (!order) return;
    if (in.node->type() == "Transpose" && !in.node->fed) {
      const Edge source = in.node->inputs[0];
      const auto inner = ConstantPermutation(in.node->inputs[1], source.shape().rank());
      if (inner) {
        std::vector<int64_t> both;
        for (const int64_t axis : *order) both.push_back((*inner)[static_cast<size_t>(axis)]);
        if (std::is_sorted(both.begin(), both.end())) return Replace(node, source, "undoes another");
        if (GraphEditor::OnlyUse(in)) {
          Tensor permutation(DType::kInt64, Shape{source.shape().rank()});
          std::copy(both.begin(), both.end(), permutation.flat<int64_t>().begin());
          const Edge perm = graph_.AddConst(node.name + "/perm", std::move(permutation), node)->output();
          context_.log.push_back(fmt::format("{}: one transpose in the place of two", node.name));
          graph_.Become(node, "Transpose", {source, perm}, {{"T", source.dtype()}, {"Tperm", DType::kInt64}});
          return;
        }
      }
    }
    // Elements move if the order of axes with a size above one changes.
    std::vector<int64_t> moved;
    for (const int64_t axis : *order)
      if (in.shape().dim(static_cast<int>(axis)) != 1) moved.push_back(axis);
    if (!std::is_sorted(moved.begin(), moved.end())) return;
    if (in.spec() == node.outputs[0]) return Replace(node, in, "moves nothing");
    context_.log.push_back(fmt::format("{}: this transpose moves nothing and becomes a reshape", node.name));
    Reshape(node, in);
  }

  void VisitCast(EditNode& node) {
    const Edge in = node.inputs[0];
    if (in.spec() == node.outputs[0]) return Replace(node, in, "keeps the type");
    if (in.node->type() != "Cast" || in.node->fed) return;
    const Edge source = in.node->inputs[0];
    if (source.spec() == node.outputs[0] && Widens(source.dtype(), in.dtype())) Replace(node, source, "undoes another");
  }

  void VisitConcat(EditNode& node) {
    // Inputs without elements have no effect.
    std::vector<Edge> kept;
    for (size_t i = 0; i + 1 < node.inputs.size(); ++i)
      if (node.inputs[i].shape().elements() > 0) kept.push_back(node.inputs[i]);
    if (kept.size() == 1 && kept[0].spec() == node.outputs[0])
      Replace(node, kept[0], "has one input that is not empty");
  }

  GraphEditor& graph_;
  PassContext& context_;
};

}  // namespace

Status SimplifyShapes(GraphEditor& graph, PassContext& context) {
  ShapeSimplifier simplifier(graph, context);
  for (EditNode* node : graph.Nodes())
    if (!node->removed) {
      simplifier.SkipIdentityN(*node);
      simplifier.Visit(*node);
    }
  return absl::OkStatus();
}

}  // namespace rivulet
