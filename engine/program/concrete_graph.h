// The part of a graph that a signature needs, with every shape known. It is pruned from fetches and targets; shapes are
// inferred again from the feeds, constants folded, variables resolved to slices of buffers, and nodes put in execution
// order.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/program/program.h"

namespace rivulet {

class ConcreteGraph {
 public:
  // Errors as CompileProgram, except for kernels. `graph`, `signature` and `options` must outlive the result.
  static StatusOr<ConcreteGraph> Build(const Graph& graph, const Signature& signature, const CompileOptions& options);

  // Values are numbers for every output of every node.
  int value(Output output) const { return first_value_[static_cast<size_t>(output.node->id())] + output.port; }
  const TensorSpec& spec(int value) const { return values_[static_cast<size_t>(value)].spec; }
  const Tensor* constant(int value) const {  // nullptr if unknown before the run
    const Tensor& tensor = values_[static_cast<size_t>(value)].constant;
    return tensor.empty() ? nullptr : &tensor;
  }
  int feed(int value) const { return values_[static_cast<size_t>(value)].feed; }          // index, or -1
  int variable(int value) const { return values_[static_cast<size_t>(value)].variable; }  // of a handle, or -1
  int num_values() const { return static_cast<int>(values_.size()); }

  // Nodes in execution order: inputs and control inputs first, otherwise in order of creation.
  std::span<const Node* const> schedule() const { return schedule_; }
  std::span<const Output> fetches() const { return fetches_; }
  std::span<const Output> fed_outputs() const { return fed_outputs_; }  // in order of Signature::feeds
  const Graph& graph() const { return *graph_; }
  bool IsConstant(const Node& node) const;  // all its outputs are constant
  bool IsFed(const Node& node) const;       // it has outputs, and all are fed
  // Position among the random ops of the whole graph, or among its nodes that run functions, in order of creation, so
  // that pruning changes no draw; see RandomIndices (engine/graph/function_call.h).
  int random_index(const Node& node) const { return std::max(0, random_index_[static_cast<size_t>(node.id())]); }
  // The signature's binding for the handle `value`.
  const VariableBinding& binding(int value) const {
    return signature_->variables[static_cast<size_t>(variable(value))];
  }

  // `node` as seen by its kernel. The view refers to `storage`.
  struct ViewStorage {
    std::vector<TensorSpec> inputs, outputs, variables;
    std::vector<const Tensor*> constants;
  };
  NodeView View(const Node& node, ViewStorage& storage) const;

 private:
  struct Value {
    TensorSpec spec;
    Tensor constant;
    int feed = -1;
    int variable = -1;
  };
  Status ResolveSignature(const Graph& graph, const Signature& signature);
  // Sets schedule_ to the nodes that `roots` need; with `skip_constants`, inputs with known values are not followed.
  Status Schedule(std::span<const Node* const> roots, bool skip_constants);
  Status InferAndFold(const Node& node, const Signature& signature, const CompileOptions& options);
  Status ResolveVariable(const Node& node, const Signature& signature);
  Status BindVariable(const Node& node, const std::string& name, const Signature& signature);
  Status CheckHandles(const Node& node) const;
  // For a node that runs functions.
  Status InferCall(const Node& node);
  Status InferShapes(const Node& node);
  Status SetShape(const Node& node, int port, const Shape& inferred);
  void Fold(const Node& node, const CompileOptions& options);

  const Graph* graph_ = nullptr;
  const Signature* signature_ = nullptr;
  const CompileOptions* options_ = nullptr;
  std::vector<int> first_value_;  // by node id
  std::vector<int> random_index_;
  std::vector<Value> values_;
  std::unordered_map<std::string_view, size_t> bound_;  // name → index in the signature's variables
  std::vector<const Node*> schedule_;
  std::vector<Output> fetches_, fed_outputs_;
  std::vector<const Node*> roots_;
};

// Returns true if the op is stateful and draws from the run's stream.
bool DrawsRandomNumbers(const OpDef& op);

// Fails unless `shape` is fully known and has at most 2^40 elements.
Status CheckConcrete(const Shape& shape, std::string_view what);

}  // namespace rivulet
