#include "tests/testing/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/philox.h"
#include "engine/gradients/gradients.h"
#include "tests/testing/run_graph.h"

namespace rivulet::testing {
namespace {

Shape Known(const Shape& shape, KnownShapes known) {
  Shape partly = shape;
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (known == KnownShapes::kRanks || (known == KnownShapes::kAllButBatch && axis == 0))
      partly.set_dim(axis, kUnknownDim);
  return partly;
}

std::string InputName(size_t i) { return fmt::format("x{}", i); }

// The weighted sum of all outputs. Weights are constants of the outputs' shapes, which `shapes` gives.
Output WeightedSum(const Scope& scope, const std::vector<Output>& outputs, const std::vector<Shape>& shapes) {
  Output loss = scope.Const(Tensor::Scalar(0.0));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Output weights = scope.Const(RandomTensor(shapes[i], 1000 + i, 0.5, 1.5));
    std::vector<int32_t> axes(static_cast<size_t>(shapes[i].rank()));
    std::iota(axes.begin(), axes.end(), 0);
    const Output all = scope.Const(Tensor::Of<int32_t>(Shape({shapes[i].rank()}), std::span<const int32_t>(axes)));
    const Output sum = scope.Op("Sum", {scope.Op("Mul", {outputs[i], weights}), all});
    // A scalar, also where the output's rank was unknown when the graph was built.
    const Output scalar = scope.Op("Reshape", {sum, scope.Const(Tensor(DType::kInt32, Shape({0})))});
    loss = scope.Op("AddV2", {loss, scalar});
  }
  return loss;
}

std::vector<std::string> Names(const std::vector<Output>& outputs) {
  std::vector<std::string> names;
  for (const Output& output : outputs) names.push_back(output.name());
  return names;
}

struct Built {
  Graph graph;
  std::vector<Output> inputs, outputs;
};

Status Build(const std::vector<Tensor>& inputs, const BuildFn& build, KnownShapes known, Built& built) {
  Scope scope(built.graph);
  for (size_t i = 0; i < inputs.size(); ++i)
    built.inputs.push_back(scope.Placeholder(InputName(i), inputs[i].dtype(), Known(inputs[i].shape(), known)));
  built.outputs = build(scope, built.inputs);
  return scope.status();
}

Feeds FeedsOf(const std::vector<Tensor>& inputs) {
  Feeds feeds;
  for (size_t i = 0; i < inputs.size(); ++i) feeds.emplace_back(InputName(i), inputs[i]);
  return feeds;
}

Status CheckOne(const std::vector<Tensor>& inputs, const BuildFn& build, const std::vector<Shape>& output_shapes,
                KnownShapes known, const GradientCheckOptions& options) {
  Built built;
  RIVULET_RETURN_IF_ERROR(Build(inputs, build, known, built));
  Scope scope(built.graph);
  const Output loss = WeightedSum(scope, built.outputs, output_shapes);
  RIVULET_RETURN_IF_ERROR(scope.status());
  RIVULET_ASSIGN_OR_RETURN(const auto gradients, ComputeGradients(built.graph, loss, built.inputs));

  // Copies, so that the caller's tensors (which share their buffers) stay as they are.
  std::vector<Tensor> moved;
  for (const Tensor& input : inputs) moved.push_back(Tensor::Of<double>(input.shape(), input.flat<double>()));
  const Feeds feeds = FeedsOf(moved);
  RIVULET_ASSIGN_OR_RETURN(auto backward, CompiledGraph::Compile(built.graph, feeds, Names(gradients)));
  RIVULET_ASSIGN_OR_RETURN(const auto analytic, backward.Run(feeds));
  RIVULET_ASSIGN_OR_RETURN(auto forward, CompiledGraph::Compile(built.graph, feeds, {loss.name()}));
  for (size_t i = 0; i < moved.size(); ++i) {
    if (analytic[i].shape() != moved[i].shape())
      return Internal("the gradient of input {} has shape {}, not {}", i, analytic[i].shape().ToString(),
                      moved[i].shape().ToString());
    for (size_t at = 0; at < moved[i].flat<double>().size(); ++at) {
      double& x = moved[i].flat<double>()[at];
      const double kept = x;
      x = kept + options.delta;
      RIVULET_ASSIGN_OR_RETURN(const auto above, forward.Run(feeds));
      x = kept - options.delta;
      RIVULET_ASSIGN_OR_RETURN(const auto below, forward.Run(feeds));
      x = kept;
      const double numeric = (above[0].flat<double>()[0] - below[0].flat<double>()[0]) / (2 * options.delta);
      const double exact = std::as_const(analytic[i]).flat<double>()[at];
      if (!(std::abs(numeric - exact) <= options.tolerance * std::max({1.0, std::abs(numeric), std::abs(exact)})))
        return Internal("the gradient by element {} of input {} is {}, but the finite difference is {}", at, i, exact,
                        numeric);
    }
  }
  return absl::OkStatus();
}

}  // namespace

Status CheckGradients(const std::vector<Tensor>& inputs, const BuildFn& build, const GradientCheckOptions& options) {
  std::vector<Shape> shapes;
  {
    Built built;
    RIVULET_RETURN_IF_ERROR(Build(inputs, build, KnownShapes::kAll, built));
    const Feeds feeds = FeedsOf(inputs);
    RIVULET_ASSIGN_OR_RETURN(const auto outputs, RunGraph(built.graph, feeds, Names(built.outputs)));
    for (const Tensor& output : outputs) shapes.push_back(output.shape());
  }
  constexpr const char* kNames[] = {"all shapes known", "unknown batch", "only ranks known"};
  for (KnownShapes known : options.known_shapes)
    RIVULET_RETURN_IF_ERROR(
        Annotate(CheckOne(inputs, build, shapes, known, options), kNames[static_cast<size_t>(known)]));
  if (!options.second_order) return absl::OkStatus();
  // The gradient as a function of the same inputs.
  GradientCheckOptions second = options;
  second.second_order = false;
  const BuildFn gradient = [&](const Scope& scope, const std::vector<Output>& x) {
    const Output loss = WeightedSum(scope, build(scope, x), shapes);
    if (!scope.status().ok()) return std::vector<Output>{};
    auto gradients = ComputeGradients(scope.graph(), loss, x);
    scope.Fail(gradients.status());
    return gradients.ok() ? *gradients : std::vector<Output>{};
  };
  return Annotate(CheckGradients(inputs, gradient, second), "second order");
}

Tensor RandomTensor(Shape shape, uint64_t seed, double low, double high) {
  Tensor tensor(DType::kFloat64, std::move(shape));
  const PhiloxKey key{{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}};
  uint32_t index = 0;
  for (double& value : tensor.flat<double>())
    value = low + (high - low) * static_cast<double>(UniformFloat(Philox4x32(key, {index++, 0, 0, 0})[0]));
  return tensor;
}

Tensor DistinctTensor(Shape shape, uint64_t seed, double gap) {
  Tensor tensor = RandomTensor(std::move(shape), seed);
  const std::span<double> values = tensor.flat<double>();
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  // Ranks spread around 0, which lies between two of them.
  const double middle = static_cast<double>(values.size() / 2) - 0.5;
  for (size_t rank = 0; rank < order.size(); ++rank)
    values[order[rank]] = (static_cast<double>(rank) - middle) * gap * 2;
  return tensor;
}

}  // namespace rivulet::testing
