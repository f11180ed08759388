// Builder of graphs: unique names under name scopes, control dependencies. engine/variables/variables.h has variables,
// their sharing and reuse.
//
//   Graph graph;
//   Scope root(graph);
//   Scope dense = root.SubScope("dense");
//   Output w = Variable(dense, "kernel", {784, 10}, GlorotUniform());
//   Output y = dense.Op("MatMul", {x, w});
//
// Errors are kept: after the first error every call returns an empty Output, and status() returns the error. So a model
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
  // The scope of a function's body. `capture` converts tensors of another graph to arguments of the function; without
  // it they are refused. Functions created inside have names derived from `function`.
  using Capture = std::function<StatusOr<Output>(Output)>;
  Scope(Graph& body, std::string function, Capture capture = nullptr);
  // Name of the function with this body; "" for a graph's own scopes.
  const std::string& function() const;

  Scope SubScope(std::string_view name) const;  // names get the prefix "name/", made unique
  Scope WithControl(std::vector<Node*> before) const;
  // Constrains nodes to `device` ("/device:CPU:1" or another partial name,
  // engine/graph/device_name.h). Its parts override those of outer scopes, as in
  // nested tf.device blocks; "" changes nothing. An invalid name is an error.
  Scope WithDevice(std::string_view device) const;
  // Places nodes on the device of `node`, wherever that is: they get its constraint instead of this scope's, and the
  // attribute _class = ["loc:@<node>"], as in tf.compat.v1.colocate_with.
  Scope ColocateWith(const Node* node) const;

  // The same scope with nodes that state `where` as their origin: for functions that build on behalf of a caller.
  Scope At(std::source_location where) const;

  Graph& graph() const;
  const std::string& prefix() const { return prefix_; }  // "dense/" or ""
  const Status& status() const;
  void Fail(Status status) const;  // keeps the first error

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
