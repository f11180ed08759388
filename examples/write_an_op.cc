// Uses an op of one's own (sine_op.cc): differentiates through it, and writes a model that needs it as a graph file.
//   write_an_op model.pb && rivulet simulate scenario.toml --op-library sine_op.so    with model.graph = "model.pb"
#include <cstdio>
#include <fstream>

#include "dataflow/session/session.h"
#include "engine/gradients/gradients.h"
#include "engine/graph/scope.h"
#include "engine/graphdef/graph_def.h"
#include "engine/variables/variables.h"

namespace {

using namespace rivulet;

Status ShowGradient() {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, {3});
  const Output y = scope.Op("Sine", {x}, {{"omega", 2.0f}}, "y");
  const Output sum = scope.Op("Sum", {y, scope.Const(Tensor::Of<int32_t>({1}, {0}))});
  RIVULET_RETURN_IF_ERROR(scope.status());
  RIVULET_ASSIGN_OR_RETURN(const auto gradients, ComputeGradients(graph, sum, std::vector{x}));
  const std::string slope = gradients[0].name();
  RIVULET_ASSIGN_OR_RETURN(const auto session, Session::Create(std::move(graph)));
  RIVULET_ASSIGN_OR_RETURN(const auto values,
                           session->Run({{"x", Tensor::Of<float>({3}, {0, 0.5f, 1})}}, {"y", slope}));
  for (int i = 0; i < 3; ++i)
    std::printf("sin(2·%.1f) = %+.4f   slope %+.4f\n", 0.5 * i, values[0].flat<float>()[i], values[1].flat<float>()[i]);
  return absl::OkStatus();
}

// An image of 28 x 28 pixels, a hidden layer of sines, ten classes; tensors are named as model.graph expects them.
Status WriteModel(const char* path) {
  Graph graph;
  const Scope scope(graph);
  const Output image = scope.Placeholder("image", DType::kFloat32, {kUnknownDim, 784});
  const Output label = scope.Placeholder("label", DType::kInt64, {kUnknownDim});
  const Output hidden = scope.Op("MatMul", {image, Variable(scope, "hidden", {784, 64}, GlorotUniform())});
  const Output sines = scope.Op("Sine", {hidden}, {{"omega", 1.0f}});
  const Output logits = scope.Op("MatMul", {sines, Variable(scope, "output", {64, 10}, GlorotUniform())}, {}, "logits");
  const Output all = scope.Const(Tensor::Of<int32_t>({1}, {0}));
  scope.Op("Mean", {scope.Op("SparseSoftmaxCrossEntropyWithLogits", {logits, label}), all}, {}, "loss");
  const Output guess = scope.Op("ArgMax", {logits, scope.Const(Tensor::Scalar<int32_t>(1))});
  const Output right = scope.Op("Cast", {scope.Op("Equal", {guess, label})}, {{"DstT", DType::kFloat32}});
  scope.Op("Mean", {right, all}, {}, "accuracy");
  RIVULET_RETURN_IF_ERROR(scope.status());
  std::ofstream file(path, std::ios::binary);
  file << SerializeGraph(graph);
  if (!file.flush()) return Unavailable("{} cannot be written", path);
  std::printf("%s: a model with Sine, %zu nodes\n", path, graph.nodes().size());
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  Status status = ShowGradient();
  if (status.ok() && argc > 1) status = WriteModel(argv[1]);
  if (!status.ok()) std::fprintf(stderr, "write_an_op: %s\n", std::string(Message(status)).c_str());
  return status.ok() ? 0 : 1;
}
