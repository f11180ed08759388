// Messages of an ONNX graph under construction: unique names, nodes, constants, initializers. Independent of the
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

// ONNX's number of a type. UNIMPLEMENTED: it has none.
StatusOr<int> OnnxFromDType(DType dtype);

class ModelWriter {
 public:
  // A name that no value has, `wanted` itself where it is free; it is taken from now on.
  std::string NewName(std::string_view wanted);

  // Adds a node "<prefix>/<op>" (made unique) and returns its outputs.
  std::vector<Value> Emit(std::string_view prefix, std::string_view op, std::vector<Value> inputs, int outputs,
                          const AttrMap& attrs);
  // A Constant node; the same value again gives the same one.
  Value Constant(const Tensor& value, std::string_view wanted);
  // An initializer, written in order of `order`.
  Value Initializer(const Tensor& value, std::string_view wanted, int order);

  size_t nodes() const { return nodes_.size(); }
  proto::NodeProto& node(size_t i) { return nodes_[i]; }
  // The node that makes `value` as its first output; null: none, or an initializer, or an input.
  proto::NodeProto* MakerOf(const Value& value);
  bool IsMade(const Value& value) const { return maker_.contains(value); }  // by a node
  // Calls a value otherwise, in all nodes from `first_node` on. `to` is free.
  void Rename(const Value& from, const Value& to, size_t first_node);

  // Leaves out what `outputs` do not need.
  void Prune(const std::vector<Value>& outputs);
  // What Prune left, as a graph without inputs, outputs and value_info. `external` (optional) receives the values of
  // large initializers, which the graph then says to lie in `data_file`. Errors of Emit surface here.
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
  std::map<std::string, Value> constants_;  // by type, shape and bytes
  std::map<Value, Weight> weights_;
};

}  // namespace rivulet::onnx
