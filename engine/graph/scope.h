// Builder of graphs: unique names under name scopes, control dependencies. engine/variables/variables.h has variables,
// their sharing and reuse.
//
//   Graph graph;
//   Scope root(graph);
//   Scope dense = root.SubScope("dense");
//   Output w = Variable(dense, "kernel", {784, 10}, GlorotUniform());
//   Output y = dense.Op("MatMul", {x, w});
//
// Errors stick: after the first error every call returns an empty Output, and status() returns the error. So a model
// needs one check at its end, not a check per line.
#pragma once

#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

class Scope {
 public:
  explicit Scope(Graph& graph);  // `graph` must outlive the scope
  // The scope of a function's body. A node that is given a tensor of another graph gets what `capture` makes of it, an
  // argument of the function; without one it is refused. Functions that are made inside take names after `function`.
  using Capture = std::function<StatusOr<Output>(Output)>;
  Scope(Graph& body, std::string function, Capture capture = nullptr);
  // Of the function whose body this is; "" for a graph's own scopes.
  const std::string& function() const;

  Scope SubScope(std::string_view name) const;  // names get the prefix "name/", made unique
  Scope WithControl(std::vector<Node*> before) const;
  // Nodes are constrained to `device` ("/device:CPU:1" or another part of a name, engine/graph/device_name.h). What
  // it states wins over outer scopes, part by part, as nested tf.device blocks; "" changes nothing. Fails on a name
  // that is none.
  Scope WithDevice(std::string_view device) const;
  // Nodes are to live on the device of `node`, wherever that is: they get its constraint instead of this scope's and
  // the attribute _class = ["loc:@<node>"], as tf.compat.v1.colocate_with does.
  Scope ColocateWith(const Node* node) const;

  // The same scope, whose nodes say that `where` built them: for functions that build on behalf of a caller.
  Scope At(std::source_location where) const;

  Graph& graph() const;
  const std::string& prefix() const { return prefix_; }  // "dense/" or ""
  const Status& status() const;
  void Fail(Status status) const;  // keeps the first

  // Adds `op` under a unique name and returns its first output (an empty Output for ops without outputs).
  Output Op(std::string_view op, std::vector<Output> inputs, AttrMap attrs = {}, std::string_view name = {},
            std::source_location where = std::source_location::current()) const;
  Node* AddNode(std::string_view op, std::vector<Output> inputs, AttrMap attrs = {}, std::string_view name = {},
                std::source_location where = std::source_location::current()) const;

  Output Const(Tensor value, std::string_view name = "Const") const;
  Output Const(float value, std::string_view name = "Const") const;
  Output Placeholder(std::string_view name, DType dtype, Shape shape) const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  std::string prefix_;
  std::vector<Node*> control_;
  std::string source_line_;
  std::string device_;                   // canonical
  std::vector<std::string> colocation_;  // "loc:@node"
};

}  // namespace rivulet
