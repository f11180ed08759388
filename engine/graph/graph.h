// The dataflow graph. Nodes are operations; edges are tensors ("name:port") or control dependencies ("^name"). Names,
// ops and attributes are TensorFlow's. A Graph owns its nodes; a Node* stays valid for the graph's life. Not
// thread-safe while being built; a finished graph may be read by many threads.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/status.h"
#include "engine/graph/attr.h"

namespace rivulet {

class Graph;
class Node;
struct OpDef;     // engine/graph/op.h
struct Function;  // engine/graph/function.h

// One output of a node.
struct Output {
  Node* node = nullptr;
  int port = 0;
  bool operator==(const Output&) const = default;
  explicit operator bool() const { return node != nullptr; }
  DType dtype() const;
  // The inferred shape, possibly partly unknown. A resource (variable handle) has its variable's shape.
  const Shape& shape() const;
  std::string name() const;  // "node" for port 0, else "node:1"
};

class Node {
 public:
  int id() const { return id_; }  // position in Graph::nodes(): order of creation
  const std::string& name() const { return name_; }
  const OpDef& op() const { return *op_; }
  std::string_view type() const;  // op().name
  std::span<const Output> inputs() const { return inputs_; }
  Output input(int i) const { return inputs_[static_cast<size_t>(i)]; }
  std::span<Node* const> control_inputs() const { return control_inputs_; }
  std::span<const TensorSpec> outputs() const { return outputs_; }
  Output output(int port = 0) { return {this, port}; }
  const AttrMap& attrs() const { return attrs_; }
  bool HasAttr(std::string_view name) const { return attrs_.find(std::string(name)) != attrs_.end(); }
  // The attribute `name` as a T. It must exist with this type (Graph::AddNode checked them and added defaults), except
  // for optional "_…" attributes, for which there is HasAttr.
  template <typename T>
  const T& attr(std::string_view name) const {
    const T* value = FindAttr<T>(name);
    RIVULET_CHECK(value != nullptr, "{} '{}' has no attribute '{}' of the type asked for", type(), name_, name);
    return *value;
  }
  // The attribute, or nullptr if there is none with this name and type.
  template <typename T>
  const T* FindAttr(std::string_view name) const {
    const auto found = attrs_.find(std::string(name));
    return found == attrs_.end() ? nullptr : std::get_if<T>(&found->second);
  }
  const std::string& source_line() const { return source_line_; }  // "file.cc:12" of the code that built it, or ""
  const std::string& device() const { return device_; }

 private:
  friend class Graph;
  int id_ = 0;
  std::string name_;
  const OpDef* op_ = nullptr;
  std::vector<Output> inputs_;
  std::vector<Node*> control_inputs_;
  std::vector<TensorSpec> outputs_;
  AttrMap attrs_;
  std::string source_line_;
  std::string device_;
};

// Arguments of AddNode; `op` is looked up in the registry.
struct NodeSpec {
  std::string name;  // must be unused; Scope creates unique names
  std::string op;
  std::vector<Output> inputs;
  std::vector<Node*> control_inputs = {};
  AttrMap attrs = {};  // attributes that follow from the inputs or have defaults may be omitted
  std::string source_line = {};
  std::string device = {};
};

class Graph {
 public:
  Graph();
  ~Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;

  // Checks the spec against the op's signature, infers types and shapes, adds the node.
  // NOT_FOUND: unknown op (names the nearest). ALREADY_EXISTS: name taken. INVALID_ARGUMENT: wrong number of inputs or
  // types, a missing, unknown or ill-typed attribute, or a shape error, with node, operands and source line.
  StatusOr<Node*> AddNode(NodeSpec spec);

  std::span<const std::unique_ptr<Node>> nodes() const { return nodes_; }
  Node* Find(std::string_view name) const;  // nullptr if there is none
  // "name" or "name:port". NOT_FOUND names the nearest node; OUT_OF_RANGE: the node lacks the port.
  StatusOr<Output> FindOutput(std::string_view tensor_name) const;
  std::vector<Node*> Consumers(Output output) const;  // each once, in order of creation
  // INVALID_ARGUMENT: dtypes differ, shapes are incompatible, or the new edge would close a cycle.
  Status ReplaceInput(Node* node, int input, Output replacement);
  // Makes `before` run before `node`; repeating it has no effect. INVALID_ARGUMENT: the edge would close a cycle.
  Status AddControlInput(Node* node, Node* before);
  // Nodes reachable backwards from `targets`, in topological order (ties: creation order).
  std::vector<Node*> TopologicalOrder(std::span<Node* const> targets) const;
  // Deep copy; nodes keep names and ids. Functions are shared.
  Graph Clone() const;

  // The graph's library, by name. Adding a function also adds those in its body; adding it again has no effect.
  // ALREADY_EXISTS: another function has the name of one of them.
  Status AddFunction(std::shared_ptr<const Function> function);
  const Function* FindFunction(std::string_view name) const;  // nullptr if there is none
  const std::map<std::string, std::shared_ptr<const Function>>& functions() const { return functions_; }

 private:
  std::vector<std::unique_ptr<Node>> nodes_;
  std::unordered_map<std::string, Node*> by_name_;
  std::map<std::string, std::shared_ptr<const Function>> functions_;
  bool ordered_ =
      true;  // every input was created before its node: true until ReplaceInput or AddControlInput say otherwise

  bool Owns(const Node* node) const;
  bool Reaches(const Node* from, const Node* to) const;  // backwards along inputs and control inputs
};

}  // namespace rivulet
