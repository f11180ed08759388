// Defines a model and trains it: which of two spirals does a point lie on?
#include <cmath>
#include <cstdio>

#include "dataflow/session/session.h"
#include "engine/gradients/gradients.h"
#include "engine/graph/scope.h"
#include "engine/optimizers/apply_gradients.h"
#include "engine/variables/variables.h"

namespace {

using namespace rivulet;

constexpr int64_t kPoints = 200;  // half of them on each spiral

struct Spirals {
  Tensor points{DType::kFloat32, Shape{kPoints, 2}};
  Tensor classes{DType::kInt64, Shape{kPoints}};
};

Spirals MakeSpirals() {
  Spirals spirals;
  for (int64_t i = 0; i < kPoints; ++i) {
    const double angle = 3.0 * M_PI * static_cast<double>(i / 2 + 10) / kPoints, turn = i % 2 == 0 ? 0 : M_PI;
    spirals.points.flat<float>()[2 * i] = static_cast<float>(angle / 5 * std::cos(angle + turn));
    spirals.points.flat<float>()[2 * i + 1] = static_cast<float>(angle / 5 * std::sin(angle + turn));
    spirals.classes.flat<int64_t>()[i] = i % 2;
  }
  return spirals;
}

// A hidden layer of 32 units between the point and its two scores. The number of points stays open ("?") until a run.
Status Train() {
  Graph graph;
  const Scope scope(graph);
  const Output point = scope.Placeholder("point", DType::kFloat32, {kUnknownDim, 2});
  const Output label = scope.Placeholder("label", DType::kInt64, {kUnknownDim});
  Output x = point;
  for (const auto& [name, in, out] : {std::tuple("hidden", 2, 32), std::tuple("scores", 32, 2)}) {
    const Scope layer = scope.SubScope(name);
    const Output kernel = Variable(layer, "kernel", {in, out}, GlorotUniform());
    const Output bias = Variable(layer, "bias", {out}, Zeros());
    x = layer.Op("BiasAdd", {layer.Op("MatMul", {x, kernel}), bias});
    if (name == std::string("hidden")) x = layer.Op("Tanh", {x});
  }
  const Output losses = scope.Op("SparseSoftmaxCrossEntropyWithLogits", {x, label});
  const Output loss = scope.Op("Mean", {losses, scope.Const(Tensor::Of<int32_t>({1}, {0}))}, {}, "loss");
  const Output guess = scope.Op("ArgMax", {x, scope.Const(Tensor::Scalar<int32_t>(1))}, {}, "guess");
  RIVULET_RETURN_IF_ERROR(scope.status());

  std::vector<Output> variables;
  for (const char* name : {"hidden/kernel", "hidden/bias", "scores/kernel", "scores/bias"}) {
    RIVULET_ASSIGN_OR_RETURN(const Output variable, FindVariable(graph, name));
    variables.push_back(variable);
  }
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Output> gradients, ComputeGradients(graph, loss, variables));
  const OptimizerSpec adam = {.kind = "adam", .learning_rate = 0.02};
  RIVULET_ASSIGN_OR_RETURN(const Node* step, ApplyGradients(scope, adam, variables, gradients));
  const std::string train = step->name();

  RIVULET_ASSIGN_OR_RETURN(const auto session, Session::Create(std::move(graph), {.seed = 1}));
  RIVULET_RETURN_IF_ERROR(session->Run({}, {}, {kInitTarget}).status());
  const Spirals spirals = MakeSpirals();
  const Session::Feeds feeds = {{"point", spirals.points}, {"label", spirals.classes}};
  for (int i = 0; i <= 500; ++i) {
    RIVULET_ASSIGN_OR_RETURN(const std::vector<Tensor> values, session->Run(feeds, {"loss", "guess"}, {train}));
    if (i % 100 != 0) continue;
    int right = 0;
    for (int64_t point_index = 0; point_index < kPoints; ++point_index)
      right += values[1].flat<int64_t>()[point_index] == spirals.classes.flat<int64_t>()[point_index];
    std::printf("step %3d  loss %.4f  %3d of %d points right\n", i, values[0].flat<float>()[0], right,
                static_cast<int>(kPoints));
  }
  return absl::OkStatus();
}

}  // namespace

int main() {
  const Status status = Train();
  if (!status.ok()) std::fprintf(stderr, "train: %s\n", std::string(Message(status)).c_str());
  return status.ok() ? 0 : 1;
}
