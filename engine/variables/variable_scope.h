// Variables by path, as TensorFlow's tf.variable_scope and tf.get_variable. A function that builds a layer can run
// twice and share its weights: variables are named by the entered variable scopes, nodes by name scopes, which are made
// unique.
//
//   Output Dense(const VariableScope& parent, Output x, int64_t units) {
//     const VariableScope scope = parent.Enter("dense");
//     const Output kernel = scope.Get("kernel", {x.shape().dims()[1], units}, GlorotUniform());
//     return scope.ops().Op("MatMul", {x, kernel});
//   }
//   const VariableScope root(scope);
//   const Output left = Dense(root, a, 10);               // creates "dense/kernel"; nodes "dense/…"
//   const Output right = Dense(root.Reusing(), b, 10);    // the same variable;      nodes "dense_1/…"
//
// Errors stick in the scope of nodes, as everywhere.
#pragma once

#include <source_location>
#include <string>
#include <string_view>

#include "engine/graph/scope.h"
#include "engine/variables/variables.h"

namespace rivulet {

class VariableScope {
 public:
  using Sharing = VariableOptions::Sharing;

  // The outermost one: variables without a prefix, nodes in `ops`, which must outlive it.
  explicit VariableScope(const Scope& ops, Sharing sharing = Sharing::kCreate);

  // Variables below get "name/" before theirs, nodes the name scope "name", made unique. `name` may have several parts,
  // "block1/dense". An empty name is INVALID_ARGUMENT.
  VariableScope Enter(std::string_view name) const;
  // The same scope, whose variables must exist; and one whose variables are created where they are not there yet
  // (tf.AUTO_REUSE). Scopes entered from it inherit that.
  VariableScope Reusing() const { return With(Sharing::kReuse); }
  VariableScope ReusingOrCreating() const { return With(Sharing::kReuseOrCreate); }
  // The segment of variables that are created: trainable, shared, local, frozen.
  VariableScope WithSegment(std::string segment) const;

  // The value of the variable "<path>/<name>". ALREADY_EXISTS, NOT_FOUND (nearest) and INVALID_ARGUMENT (another shape,
  // dtype or segment) as Variable().
  Output Get(std::string_view name, const Shape& shape, const Initializer& initializer, DType dtype = DType::kFloat32,
             std::source_location where = std::source_location::current()) const;

  const Scope& ops() const { return ops_; }
  const std::string& path() const { return path_; }  // "block1/dense/" or ""

 private:
  VariableScope With(Sharing sharing) const;

  Scope ops_;
  std::string path_;
  Sharing sharing_;
  std::string segment_ = "trainable";
};

}  // namespace rivulet
