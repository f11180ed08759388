// Changes a graph that is there already: hides one column of an input from a model, and from its gradient.
#include <cstdio>

#include "dataflow/session/session.h"
#include "engine/gradients/gradients.h"
#include "engine/graph/scope.h"
#include "engine/variables/variables.h"

namespace {

using namespace rivulet;

// Everyone who reads `tensor` reads `tensor` times a mask instead, in which `column` is 0.
StatusOr<Output> HideColumn(const Scope& scope, Output tensor, int64_t column) {
  const std::vector<Node*> consumers = scope.graph().Consumers(tensor);  // before the mask becomes one
  Tensor mask(DType::kFloat32, Shape{tensor.shape().dims()[1]});
  for (int64_t i = 0; i < mask.elements(); ++i) mask.flat<float>()[i] = i == column ? 0 : 1;
  const Output masked = scope.Op("Mul", {tensor, scope.Const(mask)}, {}, "masked");
  RIVULET_RETURN_IF_ERROR(scope.status());
  for (Node* consumer : consumers)
    for (int i = 0; i < static_cast<int>(consumer->inputs().size()); ++i)
      if (consumer->input(i) == tensor) RIVULET_RETURN_IF_ERROR(scope.graph().ReplaceInput(consumer, i, masked));
  return masked;
}

Status Show() {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, {1, 3});
  const Output weights = scope.Const(Tensor::Of<float>({3, 1}, {1, 10, 100}));
  const Output y = scope.Op("MatMul", {scope.Op("Square", {x}), weights}, {}, "y");
  const Output sum = scope.Op("Sum", {y, scope.Const(Tensor::Of<int32_t>({2}, {0, 1}))});
  RIVULET_RETURN_IF_ERROR(HideColumn(scope, x, 1).status());
  // Of the graph as it is now: no gradient reaches the hidden column.
  RIVULET_ASSIGN_OR_RETURN(const auto gradients, ComputeGradients(graph, sum, std::vector{x}));
  const std::string gradient = gradients[0].name();

  RIVULET_ASSIGN_OR_RETURN(const auto session, Session::Create(std::move(graph)));
  RIVULET_ASSIGN_OR_RETURN(const auto values,
                           session->Run({{"x", Tensor::Of<float>({1, 3}, {2, 3, 4})}}, {"y", gradient}));
  std::printf("y = %g\n", values[0].flat<float>()[0]);
  const auto slopes = values[1].flat<float>();
  std::printf("dy/dx = (%g, %g, %g)\n", slopes[0], slopes[1], slopes[2]);
  return absl::OkStatus();
}

}  // namespace

int main() {
  const Status status = Show();
  if (!status.ok()) std::fprintf(stderr, "graph_surgery: %s\n", std::string(Message(status)).c_str());
  return status.ok() ? 0 : 1;
}
