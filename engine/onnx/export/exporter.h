// Exporter of an op to ONNX: a function that emits ONNX's nodes for one node of a graph. Each family's file registers
// its exporters:
//
//   RIVULET_ONNX_EXPORT("Relu", [](ExportContext& n) {
//     return Elementwise(n, [&](const Value& x) { return n.Op("Relu", {x}); });
//   });
//
// Images in the engine are [batch, spatial…, channels] unless an op says otherwise; in ONNX they are [batch, channels,
// spatial…]. A value may exist in either layout; it is transposed once if the requested layout does not exist. So a
// chain of convolutions, pools and elementwise ops has a transpose at each end.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet::onnx {

using Value = std::string;  // a value's name in the model; "" for an omitted optional input

class Exporter;  // export.cc

class ExportContext {
 public:
  ExportContext(Exporter& exporter, const Node& node) : exporter_(exporter), node_(node) {}

  const Node& node() const { return node_; }
  std::string_view type() const { return node_.type(); }
  template <typename T>
  const T& attr(std::string_view name) const {
    return node_.attr<T>(name);
  }
  // Returns an optional attribute: "_…", or one that not all ops of a family have.
  template <typename T>
  T attr_or(std::string_view name, T otherwise) const {
    const T* value = node_.FindAttr<T>(name);
    return value == nullptr ? otherwise : *value;
  }
  int num_inputs() const { return static_cast<int>(node_.inputs().size()); }
  DType dtype(int i) const { return node_.input(i).dtype(); }
  const Shape& shape(int i) const { return node_.input(i).shape(); }
  // Return ranks and shapes that an exporter needs. FAILED_PRECONDITION: they are unknown.
  StatusOr<int> Rank(int i) const;
  StatusOr<Shape> KnownShape(int i) const;
  StatusOr<int> Axis(int64_t axis, int rank) const;
  // Returns true if an optional input of the engine's own ops is omitted, which means a vector without elements.
  bool IsLeftOut(int i) const;

  // Returns input i in the graph's layout; it is transposed if it only exists in the other layout.
  Value input(int i) const;
  std::vector<Value> inputs() const;
  // Returns input i, [batch, spatial…, channels] in the graph, as [batch, channels, spatial…].
  Value channels_first(int i) const;
  // Returns true if it exists in that layout, and not (yet) in the graph's.
  bool lies_channels_first(int i) const;
  // Returns input i, integers, as int64, which ONNX requires for sizes and axes.
  Value int64s(int i) const;
  // Returns the value of an input that follows from constants. FAILED_PRECONDITION: it does not.
  StatusOr<Tensor> Known(int i) const;
  StatusOr<std::vector<int64_t>> KnownInts(int i) const;  // flattened
  StatusOr<int64_t> KnownInt(int i) const;                // must have one element
  std::optional<std::vector<int64_t>> IntsIfKnown(int i) const;
  // Returns input i reshaped to `split` (if not empty), transposed by `perm`, and reshaped to `dims` (if not empty).
  // Weights and constants are stored in the new order; other inputs are transposed when the model runs.
  Value Arranged(int i, const std::vector<int64_t>& perm, const std::vector<int64_t>& dims = {},
                 const std::vector<int64_t>& split = {}) const;
  // Returns the shape of output `port`; sizes are known unless they depend on the batch.
  Shape OutputShape(int port) const;
  // Returns the shape of input i, likewise.
  Shape InputShape(int i) const;
  // Returns the value of any tensor of the graph that was created before this node.
  Value ValueOf(Output x) const;

  // Adds an ONNX node. Attributes have ONNX's names; their values are integers, floats, texts, lists of them, or
  // tensors. A bool becomes an integer, and a DType ONNX's number for it.
  Value Op(std::string_view op, std::vector<Value> inputs, AttrMap attrs = {}) const;
  std::vector<Value> All(std::string_view op, std::vector<Value> inputs, int outputs, AttrMap attrs = {}) const;
  Value Const(const Tensor& value) const;
  Value Ints(const std::vector<int64_t>& values) const;
  Value Int(int64_t value) const;
  Value Scalar(DType dtype, double value) const;
  Value Cast(const Value& x, DType to) const;
  Value Transpose(const Value& x, const std::vector<int64_t>& perm) const;
  Value Reshape(const Value& x, const std::vector<int64_t>& dims) const;  // 0: the size of that axis of x
  Value Squeeze(const Value& x, std::vector<int64_t> axes) const;
  Value Unsqueeze(const Value& x, std::vector<int64_t> axes) const;
  Value Slice(const Value& x, int64_t axis, int64_t begin, int64_t end) const;
  Value Concat(std::vector<Value> parts, int64_t axis) const;

  void set_output(int port, Value value);
  void set_output_channels_first(int port, Value value);
  // Sets an output that is int64 in ONNX and int32 in the graph; it is converted if requested.
  void set_output_int64(int port, Value value);
  // Sets the output to input i, in all its layouts.
  void Forward(int port, int i);
  // Returns true if an exported node or output uses this output.
  bool IsUsed(int port) const;
  // Returns UNIMPLEMENTED, naming the output, if it is used; else OK. For outputs that only a backward pass needs.
  Status RefuseOutput(int port, std::string_view what) const;

  // Makes `bias` the third input of the Conv, ConvTranspose or Gemm (a MatMul becomes one) that computes input i, if
  // this node is its only user; input i then includes the bias. Otherwise returns false and changes nothing.
  bool AddBias(int i, const Value& bias);

 private:
  Exporter& exporter_;
  const Node& node_;
};

// Exports an elementwise op with one input, in the layout in which the input exists.
Status Elementwise(ExportContext& n, const std::function<Value(const Value& x)>& emit);
// The same for two inputs that are broadcast.
Status ElementwisePair(ExportContext& n, const std::function<Value(const Value& x, const Value& y)>& emit);

// Return the permutation from [batch, spatial…, channels] to [batch, channels, spatial…], and its inverse.
std::vector<int64_t> ToChannelsFirst(int rank);
std::vector<int64_t> ToChannelsLast(int rank);

using ExportFunction = Status (*)(ExportContext&);

class ExporterRegistry {
 public:
  static ExporterRegistry& Global();
  // Registers an exporter. The program aborts if an op is registered twice.
  void Register(std::string_view op, ExportFunction function);
  ExportFunction Find(std::string_view op) const;  // nullptr if there is none
  std::vector<std::string> All() const;            // sorted

 private:
  std::map<std::string, ExportFunction, std::less<>> functions_;
};

namespace internal {
struct ExporterRegistration {
  ExporterRegistration(const char* op, ExportFunction function) { ExporterRegistry::Global().Register(op, function); }
};
}  // namespace internal

#define RIVULET_ONNX_EXPORT(op, ...) RIVULET_ONNX_EXPORT_(__COUNTER__, op, __VA_ARGS__)
#define RIVULET_ONNX_EXPORT_(counter, op, ...) RIVULET_ONNX_EXPORT2_(counter, op, __VA_ARGS__)
#define RIVULET_ONNX_EXPORT2_(counter, op, ...)                                                              \
  [[maybe_unused]] static const ::rivulet::onnx::internal::ExporterRegistration rivulet_export_##counter(op, \
                                                                                                         __VA_ARGS__)

}  // namespace rivulet::onnx
