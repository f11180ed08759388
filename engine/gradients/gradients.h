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

// Whether tensors of the type can have a gradient. A list may hold floating elements; the ops on it know.
bool CarriesGradient(DType dtype);

// What a gradient function sees: a node of the forward graph, and the gradients that reached its outputs. It adds nodes
// under the "gradients" name scope and says the gradient of each input; inputs it does not mention get none.
class GradientContext {
 public:
  // `wanted`, by input: which gradients somebody asked for; empty: all.
  GradientContext(Scope scope, Node* node, std::span<const Output> output_gradients, std::vector<bool> wanted = {});
  Node* node() const { return node_; }
  Scope& scope() { return scope_; }
  Output input(int i) const { return node_->input(i); }
  Output output(int i) const { return node_->output(i); }
  // The gradient that reached output i; an empty Output when none did.
  Output grad(int i = 0) const { return output_gradients_[static_cast<size_t>(i)]; }
  // Whether somebody asked for the gradient of input i: what would be dear to compute for nobody is left out.
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
// a floating scalar. An x is any floating tensor (a placeholder, one read of a variable), or a variable's handle, whose
// gradient is the sum over all reads of that variable, those inside of functions that it is passed to included. An x
// that the loss does not depend on gets zeros of its shape. A tensor used several times sums its gradients, in an order
// that depends on the graph alone. Integers and booleans carry no gradient. INVALID_ARGUMENT: loss or an x of a wrong
// type or shape. UNIMPLEMENTED names an op on the path without gradient, and why.
StatusOr<std::vector<Output>> ComputeGradients(Graph& graph, Output loss, std::span<const Output> xs);

// The same for several tensors `ys` of any shape, whose own gradients `y_gradients` are given: d Σ y · y_gradient / d
// x. `scope` is of the graph that all are in.
StatusOr<std::vector<Output>> ComputeGradients(const Scope& scope, std::span<const Output> ys,
                                               std::span<const Output> y_gradients, std::span<const Output> xs);

}  // namespace rivulet
