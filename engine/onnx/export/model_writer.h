// Writer of the messages of an ONNX graph: unique names, nodes, constants, initializers. It does not depend on the
// engine's graphs.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/attr.h"
#include "engine/onnx/export/export.h"
#include "engine/onnx/export/exporter.h"
#include "proto/onnx/onnx.pb.h"

namespace rivulet::onnx {

// Returns ONNX's number of a type. UNIMPLEMENTED: there is none.
StatusOr<int> OnnxFromDType(DType dtype);

class ModelWriter {
 public:
  // Reserves and returns a name that no value has: `wanted` itself if it is free.
  std::string NewName(std::string_view wanted);

  // Adds a node "<prefix>/<op>" (made unique) and returns its outputs.
  std::vector<Value> Emit(std::string_view prefix, std::string_view op, std::vector<Value> inputs, int outputs,
                          const AttrMap& attrs);
  // Returns a Constant node; equal values share one node.
  Value Constant(const Tensor& value, std::string_view wanted);
  // Adds an initializer; initializers are written by `order`.
  Value Initializer(const Tensor& value, std::string_view wanted, int order);

  size_t nodes() const { return nodes_.size(); }
  proto::NodeProto& node(size_t i) { return nodes_[i]; }
  // Returns the node whose first output is `value`; null if there is none, or for an initializer or input.
  proto::NodeProto* MakerOf(const Value& value);
  bool IsMade(const Value& value) const { return maker_.contains(value); }  // by a node
  // Renames a value in all nodes from `first_node` on. `to` must be free.
  void Rename(const Value& from, const Value& to, size_t first_node);

  // Removes nodes that `outputs` do not need.
  void Prune(const std::vector<Value>& outputs);
  // Returns the remaining nodes as a graph without inputs, outputs and value_info. `external` (optional) receives the
  // values of large initializers, for which the graph refers to `data_file`. Returns errors of Emit.
  StatusOr<proto::GraphProto> Finish(const std::string& data_file, std::vector<ExternalPiece>* external);
  int64_t parameters() const;
  uint64_t initializer_bytes() const;

 private:
  struct Weight {
    Tensor value;
    int order = 0;
  };
  Status status_;
  std::vector<proto::NodeProto> nodes_;
  std::unordered_map<std::string, size_t> maker_;
  std::unordered_set<std::string> names_, node_names_;
  std::map<std::string, Value> constants_;  // key: type, shape and bytes
  std::map<Value, Weight> weights_;
};

}  // namespace rivulet::onnx
