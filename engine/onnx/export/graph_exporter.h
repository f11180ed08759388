// The traversal of an engine graph that fills a ModelWriter. ExportContext exports one node; this class exports all.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/onnx/export/batch_shapes.h"
#include "engine/onnx/export/model_writer.h"
#include "engine/onnx/known_values.h"

namespace rivulet::onnx {

class Exporter {
 public:
  Exporter(const Graph& graph, const ExportOptions& options) : graph_(graph), options_(options), known_(graph) {}

  // Emits all nodes that the outputs need. The functions below require it.
  Status Run();
  ModelWriter& writer() { return writer_; }
  const std::vector<const Node*>& placeholders() const { return placeholders_; }
  const std::vector<Output>& outputs() const { return outputs_; }
  // A value of the model that is a tensor of the graph, for value_info with its shape.
  struct Described {
    Output tensor;
    bool channels_first = false;
  };
  const std::map<Value, Described>& described() const { return described_; }
  // The sizes of all tensors that do not depend on the batch, or are a multiple of it. Computed once.
  const BatchShapes& shapes();

  // Functions for ExportContext. Errors are kept: after the first one all values are "".
  const Status& status() const { return status_; }
  void Fail(const Status& status) {
    if (status_.ok()) status_ = status;
  }
  Value Plain(Output x);
  Value ChannelsFirst(Output x);
  bool LiesChannelsFirst(Output x) const;
  Value Int64s(Output x);
  Value Arranged(Output x, const std::vector<int64_t>& perm, const std::vector<int64_t>& dims,
                 const std::vector<int64_t>& split);
  StatusOr<Tensor> Known(Output x);
  Value Const(const Tensor& value);
  Value Emitted(std::string_view op, std::vector<Value> inputs, const AttrMap& attrs);
  std::vector<Value> EmittedAll(std::string_view op, std::vector<Value> inputs, int outputs, const AttrMap& attrs);
  enum class Order { kPlain, kChannelsFirst, kInt64 };
  void Set(Output x, Order order, const Value& value);
  void Forward(Output to, Output from);
  bool IsUsed(Output x) const { return used_.contains({x.node, x.port}); }
  bool IsUsedOnce(Output x) const;

 private:
  // One tensor of the graph, with a value per layout; "" if it does not exist in that layout.
  struct Slot {
    Value plain, channels_first, int64s;
  };
  struct Weight {
    Value value;
    std::vector<int64_t> split, perm, dims;
  };
  Status FindNodes();
  Status ExportNode(const Node& node);
  bool IsConstant(const Node* node) const { return constant_.contains(node); }
  // Returns the variable whose read is x; null if there is none.
  const Node* VariableOf(Output x) const;
  StatusOr<Tensor> WeightOf(const Node& handle) const;
  Slot& At(Output x) { return slots_[{x.node, x.port}]; }
  void Remember(const Value& value) { remembered_.insert(value); }

  const Graph& graph_;
  const ExportOptions& options_;
  KnownValues known_;
  std::optional<BatchShapes> shapes_;
  ModelWriter writer_;
  Status status_;
  std::vector<const Node*> order_;
  std::vector<const Node*> placeholders_;
  std::vector<Output> outputs_;
  std::map<std::pair<const Node*, int>, int> used_;  // number of uses by exported nodes and as outputs
  std::set<const Node*> constant_;                   // nodes that follow from constants
  std::map<std::pair<const Node*, int>, Slot> slots_;
  std::map<std::string, Weight> weights_;  // by variable name
  std::map<std::string, int> variable_order_;
  std::set<Value> remembered_;  // values that are in a slot
  std::map<Value, Described> described_;
  const Node* current_ = nullptr;
  size_t first_node_ = 0;  // index in writer_ of the first node emitted for the current node
};

}  // namespace rivulet::onnx
