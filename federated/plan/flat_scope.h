// Builder of a graph over flat variables. A pass has three of them: begin, step and end.
//
//   FlatScope f(layout);
//   f.Assign("update/x", f.Scale(0.5, f.Sub(f.params(), f.base_params())));
//   graph = std::move(f).Finish();
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/graph/scope.h"
#include "federated/weights/layout.h"

namespace rivulet {

// The node of each graph that is run.
inline constexpr char kRunTarget[] = "run";

// Values are flat vectors of `layout`'s segments, or scalars. Errors are kept as in Scope; Finish returns the first.
class FlatScope {
 public:
  explicit FlatScope(const ModelLayout& layout);

  Output params() { return Read("params"); }
  Output base_params() { return Read("base_params"); }
  Output grads() { return Read("grads"); }
  Output steps() { return Read("steps"); }
  Output Read(std::string_view flat);
  // The variable's handle, for ops that change it.
  Output Handle(std::string_view flat);
  void Assign(std::string_view flat, Output value);
  // Makes `node` part of the run.
  void Effect(Node* node);

  Output Add(Output a, Output b) const { return scope_.Op("AddV2", {a, b}); }
  Output Sub(Output a, Output b) const { return scope_.Op("Sub", {a, b}); }
  // `factor`, rounded to float32, times a vector.
  Output Scale(double factor, Output vector) const;
  // A scalar, rounded to float32, times a vector.
  Output Scale(Output factor, Output vector) const;
  // A vector times the inverse of a scalar; the inverse is rounded to float32.
  Output Over(Output vector, Output divisor) const;
  // A product in float64.
  Output Times(double factor, Output scalar) const;

  const Scope& scope() const { return scope_; }
  const ModelLayout& layout() const { return layout_; }
  // Returns the graph with its target `run`. The scope is empty afterwards.
  StatusOr<Graph> Finish() &&;

 private:
  const ModelLayout& layout_;
  Graph graph_;
  Scope scope_;
  std::map<std::string, Output, std::less<>> handles_;
  std::vector<Node*> before_;  // nodes that the target depends on
};

}  // namespace rivulet
