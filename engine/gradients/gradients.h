// Reverse-mode differentiation by graph extension.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/graph/scope.h"

namespace rivulet {

// Returns true if tensors of the type can have a gradient. Lists count, since they may hold floating elements.
bool CarriesGradient(DType dtype);

// The argument of a gradient function: a node of the forward graph, and the gradients of its outputs. The function adds
// nodes under the "gradients" name scope and sets the gradient of each input; unset inputs get none.
class GradientContext {
 public:
  // `wanted`, by input: true for gradients that are needed; empty: all are.
  GradientContext(Scope scope, Node* node, std::span<const Output> output_gradients, std::vector<bool> wanted = {});
  Node* node() const { return node_; }
  Scope& scope() { return scope_; }
  Output input(int i) const { return node_->input(i); }
  Output output(int i) const { return node_->output(i); }
  // The gradient of output i; an empty Output if there is none.
  Output grad(int i = 0) const { return output_gradients_[static_cast<size_t>(i)]; }
  // Returns true if the gradient of input i is needed. Gradient functions skip costly gradients that are not.
  bool wants(int i) const { return wanted_.empty() || wanted_[static_cast<size_t>(i)]; }
  void set_input_grad(int i, Output gradient);
  std::span<const Output> input_grads() const { return input_gradients_; }

 private:
  Scope scope_;
  Node* node_;
  std::vector<Output> output_gradients_;
  std::vector<Output> input_gradients_;
  std::vector<bool> wanted_;
};

// Adds to `graph` the nodes that compute d loss / d x for each x in `xs`, and returns them in the same order. `loss` is
// a floating scalar. An x is any floating tensor (a placeholder, one read of a variable) or a variable's handle. A
// handle's gradient is the sum over all reads of the variable, including those inside functions that receive it. If the
// loss does not depend on x, the result is zeros of its shape. Gradients of a tensor with several uses are summed in an
// order that depends on the graph alone. Integers and booleans have no gradient. INVALID_ARGUMENT: loss or an x of a
// wrong type or shape. UNIMPLEMENTED names an op on the path without gradient, and the reason.
StatusOr<std::vector<Output>> ComputeGradients(Graph& graph, Output loss, std::span<const Output> xs);

// The same for several tensors `ys` of any shape with given gradients `y_gradients`: d Σ y · y_gradient / d x. `scope`
// belongs to the graph that contains all of them.
StatusOr<std::vector<Output>> ComputeGradients(const Scope& scope, std::span<const Output> ys,
                                               std::span<const Output> y_gradients, std::span<const Output> xs);

}  // namespace rivulet
