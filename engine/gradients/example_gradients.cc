#include "engine/gradients/example_gradients.h"

#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "engine/gradients/example_layout.h"
#include "engine/gradients/example_sums.h"
#include "engine/gradients/gradients.h"
#include "engine/graph/compose.h"
#include "engine/graph/inference.h"
#include "engine/graph/op.h"
#include "engine/graph/scope.h"
#include "engine/graph/variable_name.h"

namespace rivulet {
namespace {

// Nodes that take a loss to its scalar, once its values are summed over the batch: they are the same on scalars of each
// example.
bool WorksOnScalars(std::string_view op) {
  static const std::set<std::string_view> ops = {
      "Abs",     "Add", "AddN", "AddV2",   "Cast",   "DivNoNan", "Exp", "Identity", "Log",     "Log1p", "Maximum",
      "Minimum", "Mul", "Neg",  "RealDiv", "Square", "Sqrt",     "Sub", "Pow",      "Sigmoid", "Tanh"};
  return ops.contains(op);
}

bool Reduces(std::string_view op) { return op == "Mean" || op == "Sum" || op == "Max" || op == "Min" || op == "Prod"; }

// One call of ExampleLosses: lifts scalars over a batch to a vector of a scalar for each example.
class Lifting {
 public:
  Lifting(const Scope& scope, ExampleLayouts& layouts) : ops_(scope.SubScope("examples"), layouts) {}

  // A scalar that depends on no example is unchanged.
  StatusOr<Output> Lift(Output scalar) {
    const auto found = lifted_.find({scalar.node, scalar.port});
    if (found != lifted_.end()) return found->second;
    RIVULET_ASSIGN_OR_RETURN(const Output lifted, LiftNew(scalar));
    RIVULET_RETURN_IF_ERROR(ops_.scope().status());
    lifted_[{scalar.node, scalar.port}] = lifted;
    return lifted;
  }

 private:
  StatusOr<Output> LiftNew(Output scalar) {
    const ExampleLayout layout = ops_.layouts().Of(scalar);
    if (layout.none()) return scalar;
    const Node& node = *scalar.node;
    const std::string_view op = node.type();
    if (!layout.mixed() || scalar.shape().elements() != 1) return Refuse(layout);
    if (op == "Reshape" || op == "Squeeze" || op == "ExpandDims") return Lift(node.input(0));
    if (Reduces(op)) {
      const Output x = node.input(0);
      const ExampleLayout whole = ops_.layouts().Of(x);
      if (whole.mixed() && x.shape().IsFullyKnown() && x.shape().elements() == 1) return Lift(x);
      const auto at = ops_.layouts().AxisOf(x);
      if (!at) return Refuse(whole.mixed() ? whole : layout);
      return ops_.Op(op, {ops_.ByExample(x, *at), ops_.Ints({1})});
    }
    if (!WorksOnScalars(op) || scalar.shape().rank() != 0) return Refuse(layout);
    std::vector<Output> inputs;
    bool same = true;
    for (const Output& input : node.inputs()) {
      RIVULET_ASSIGN_OR_RETURN(inputs.emplace_back(), Lift(input));
      same &= inputs.back().shape() == inputs.front().shape();
    }
    // AddN broadcasts nothing.
    if (op == "AddN" && !same) {
      Output sum = inputs[0];
      for (size_t i = 1; i < inputs.size(); ++i) sum = ops_.Add(sum, inputs[i]);
      return sum;
    }
    AttrMap attrs = node.attrs();
    return ops_.Op(op, std::move(inputs), std::move(attrs));
  }

  static Status Refuse(const ExampleLayout& layout) {
    return Unimplemented("the loss cannot be taken by example: {}", DescribeMixing(layout));
  }

  ExampleOps ops_;
  std::map<std::pair<const Node*, int>, Output> lifted_;
};

Status MarkInputs(Graph& graph, Output loss, Output except, ExampleLayouts& layouts) {
  Node* const target = loss.node;
  for (Node* node : graph.TopologicalOrder({&target, 1})) {
    if (node->type() != "Placeholder" || node == except.node) continue;
    const Shape& shape = node->outputs()[0].shape;
    if (!shape.IsFullyKnown() || shape.rank() == 0 || shape.dim(0) != layouts.examples()) {
      return InvalidArgument("placeholder '{}' is {}; a gradient by example needs a batch of {} first", node->name(),
                             shape.ToString(), layouts.examples());
    }
    layouts.Mark(node->output(), ExampleLayout::Examples(ExampleLayouts::StrideAt(shape, {})));
  }
  return absl::OkStatus();
}

Status CheckArguments(Output loss, int64_t examples) {
  if (examples < 2) return InvalidArgument("a gradient by example needs a batch of at least 2, not {}", examples);
  if (!loss || loss.dtype() != DType::kFloat32 || !loss.shape().known_rank() || loss.shape().rank() != 0) {
    return InvalidArgument("the loss of a gradient by example must be a float32 scalar");
  }
  return absl::OkStatus();
}

StatusOr<Output> LossesOf(Graph& graph, Output loss, Output except, ExampleLayouts& layouts) {
  RIVULET_RETURN_IF_ERROR(MarkInputs(graph, loss, except, layouts));
  RIVULET_ASSIGN_OR_RETURN(const Output losses, Lifting(Scope(graph), layouts).Lift(loss));
  if (losses.shape() == Shape{layouts.examples()}) return losses;
  return InvalidArgument("the loss '{}' depends on no example", loss.name());
}

}  // namespace

StatusOr<Graph> WithBatchOf(const Graph& graph, int64_t examples) {
  Graph sized;
  const Scope scope(sized);
  std::map<std::string, Output, std::less<>> instead;
  for (const auto& node : graph.nodes()) {
    if (node->type() != "Placeholder") continue;
    Shape shape = node->outputs()[0].shape;
    if (!shape.known_rank() || shape.rank() == 0 || shape.dim(0) != kUnknownDim) continue;
    shape.set_dim(0, examples);
    instead[node->name()] = scope.Placeholder(node->name(), node->outputs()[0].dtype, std::move(shape));
  }
  RIVULET_RETURN_IF_ERROR(scope.status());
  RIVULET_RETURN_IF_ERROR(ImportInto(sized, graph, "", {}, nullptr, instead));
  return sized;
}

StatusOr<Output> ExampleLosses(Graph& graph, Output loss, int64_t examples) {
  RIVULET_RETURN_IF_ERROR(CheckArguments(loss, examples));
  ExampleLayouts layouts(examples);
  return LossesOf(graph, loss, {}, layouts);
}

StatusOr<ClippedGradients> ComputeClippedGradients(Graph& graph, Output loss, std::span<const Output> xs,
                                                   const ExampleClipping& clipping) {
  RIVULET_RETURN_IF_ERROR(CheckArguments(loss, clipping.examples));
  ExampleLayouts layouts(clipping.examples);
  RIVULET_ASSIGN_OR_RETURN(const Output losses, LossesOf(graph, loss, clipping.present, layouts));
  const Scope scope = Scope(graph).SubScope("clipped");
  Tensor one(DType::kFloat32, Shape{clipping.examples});
  for (float& value : one.flat<float>()) value = 1;
  const Output ones = scope.Const(std::move(one), "ones");
  // Each example's own: what follows from the ones alone is a sum over examples all the same.
  layouts.Mark(ones, ExampleLayout::Examples(1));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Output> gradients, ComputeGradients(scope, {&losses, 1}, {&ones, 1}, xs));

  ExampleOps ops(scope, layouts);
  std::vector<ExampleSumPtr> sums;
  std::vector<Output> squares;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Output gradient = gradients[i];
    sums.emplace_back();
    if (gradient.dtype() != DType::kFloat32)
      return Unimplemented("the gradient by example of '{}', which is {}; only float32 has", xs[i].name(),
                           Name(gradient.dtype()));
    if (layouts.Of(gradient).none()) continue;  // zeros
    auto sum = SumOfExamples(ops, gradient);
    if (!sum.ok()) return Annotate(sum.status(), fmt::format("variable '{}'", VariableName(*xs[i].node)));
    sums.back() = *std::move(sum);
    squares.push_back(sums.back()->SquaredNorms());
  }
  ClippedGradients clipped;
  if (squares.empty()) return InvalidArgument("the loss '{}' depends on no variable", loss.name());
  clipped.norms = scope.Op("Sqrt", {squares.size() == 1 ? squares[0] : scope.Op("AddN", squares)}, {}, "norms");
  const Output norm = scope.Const(clipping.norm, "norm");
  // A norm of 0 gives norm / tiny, of which 1 is the smaller.
  const Output floor = scope.Const(1e-30f, "tiny");
  Output factors = scope.Op(
      "Minimum", {scope.Op("RealDiv", {norm, scope.Op("Maximum", {clipped.norms, floor})}), scope.Const(1.0f, "one")});
  if (clipping.present) factors = scope.Op("Mul", {factors, clipping.present}, {}, "factors");
  for (size_t i = 0; i < gradients.size(); ++i) {
    clipped.sums.push_back(sums[i] == nullptr ? gradients[i] : sums[i]->Weighted(factors));
  }
  RIVULET_RETURN_IF_ERROR(scope.status());
  return clipped;
}

}  // namespace rivulet
