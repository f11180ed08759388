// Variables by path, like TensorFlow's tf.variable_scope and tf.get_variable. A function that builds a layer can run
// twice and share its weights. Variables are named by the entered variable scopes; nodes are named by name scopes,
// which are made unique.
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
// Errors are kept in the scope of nodes, as everywhere.
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

  // Makes the outermost scope: variables have no prefix, and nodes are added to `ops`, which must outlive it.
  explicit VariableScope(const Scope& ops, Sharing sharing = Sharing::kCreate);

  // Enters a scope: variables get the prefix "name/", and nodes the name scope "name", made unique. `name` may have
  // several parts, "block1/dense". An empty name is INVALID_ARGUMENT.
  VariableScope Enter(std::string_view name) const;
  // Reusing returns the same scope in which variables must exist. The function below creates variables that do not
  // exist yet (tf.AUTO_REUSE). Scopes entered from the result inherit the setting.
  VariableScope Reusing() const { return With(Sharing::kReuse); }
  VariableScope ReusingOrCreating() const { return With(Sharing::kReuseOrCreate); }
  // Sets the segment for variables that are created: trainable, shared, local, frozen.
  VariableScope WithSegment(std::string segment) const;

  // Returns the value of the variable "<path>/<name>". Errors as for Variable(): ALREADY_EXISTS, NOT_FOUND (names the
  // nearest), and INVALID_ARGUMENT (different shape, dtype or segment).
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
