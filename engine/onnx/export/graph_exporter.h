// The walk over an engine graph that fills a ModelWriter. ExportContext exports one node; this class exports them all.
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

  // Emits everything that the outputs need. Then:
  Status Run();
  ModelWriter& writer() { return writer_; }
  const std::vector<const Node*>& placeholders() const { return placeholders_; }
  const std::vector<Output>& outputs() const { return outputs_; }
  // Values of the model that are tensors of the graph, for their shapes.
  struct Described {
    Output tensor;
    bool channels_first = false;
  };
  const std::map<Value, Described>& described() const { return described_; }
  // Sizes of all tensors as far as they do not depend on the batch, or are a multiple of it. Worked out once.
  const BatchShapes& shapes();

  // For ExportContext. Errors stick: after the first one values are "".
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
  // One tensor of the graph in the orders in which it exists; "" where it does not.
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
  // The variable that x is, read; null: none.
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
  std::map<std::pair<const Node*, int>, int> used_;  // how often, by exported nodes and as outputs
  std::set<const Node*> constant_;                   // nodes that follow from constants
  std::map<std::pair<const Node*, int>, Slot> slots_;
  std::map<std::string, Weight> weights_;  // by variable
  std::map<std::string, int> variable_order_;
  std::set<Value> remembered_;  // that stand in a slot
  std::map<Value, Described> described_;
  const Node* current_ = nullptr;
  size_t first_node_ = 0;  // of writer_, that the current node emitted
};

}  // namespace rivulet::onnx
