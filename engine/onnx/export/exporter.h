// Exporter of an op to ONNX: a function that emits ONNX's nodes for one node of a graph. Each family's file registers
// its exporters:
//
//   RIVULET_ONNX_EXPORT("Relu", [](ExportContext& n) {
//     return Elementwise(n, [&](const Value& x) { return n.Op("Relu", {x}); });
//   });
//
// The layout of the engine's images is [batch, spatial…, channels] unless an op says otherwise, ONNX's is [batch,
// channels, spatial…]. A value may exist in either layout; it is transposed once if the requested layout does not
// exist. So a chain of convolutions, pools and elementwise ops has a transpose at each end.
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

using Value = std::string;  // a value's name in the model; "" for an optional input that is left out

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
  // Of an optional "_…" attribute, or one that some ops of a family have not.
  template <typename T>
  T attr_or(std::string_view name, T otherwise) const {
    const T* value = node_.FindAttr<T>(name);
    return value == nullptr ? otherwise : *value;
  }
  int num_inputs() const { return static_cast<int>(node_.inputs().size()); }
  DType dtype(int i) const { return node_.input(i).dtype(); }
  const Shape& shape(int i) const { return node_.input(i).shape(); }
  // Ranks and shapes that an exporter needs to know. FAILED_PRECONDITION otherwise.
  StatusOr<int> Rank(int i) const;
  StatusOr<Shape> KnownShape(int i) const;
  StatusOr<int> Axis(int64_t axis, int rank) const;
  // An optional input of the engine's own ops that is left out: a vector without elements.
  bool IsLeftOut(int i) const;

  // Input i as the graph lays it out; transposed into that order where it exists in the other alone.
  Value input(int i) const;
  std::vector<Value> inputs() const;
  // Input i, [batch, spatial…, channels] in the graph, as [batch, channels, spatial…].
  Value channels_first(int i) const;
  // It exists in that order, and not (yet) in the graph's.
  bool lies_channels_first(int i) const;
  // Input i of integers as int64, which ONNX wants of sizes and axes.
  Value int64s(int i) const;
  // The value of an input that follows from constants. FAILED_PRECONDITION: it does not.
  StatusOr<Tensor> Known(int i) const;
  StatusOr<std::vector<int64_t>> KnownInts(int i) const;  // flattened
  StatusOr<int64_t> KnownInt(int i) const;                // of one element
  std::optional<std::vector<int64_t>> IntsIfKnown(int i) const;
  // Input i reshaped to `split` (empty: as it is), transposed by `perm`, reshaped to `dims` (empty: as it is). Weights
  // and constants are stored in that order; anything else is transposed when the model runs.
  Value Arranged(int i, const std::vector<int64_t>& perm, const std::vector<int64_t>& dims = {},
                 const std::vector<int64_t>& split = {}) const;
  // The shape of output `port`, whose sizes are known where they do not depend on the batch.
  Shape OutputShape(int port) const;
  // The same of input i.
  Shape InputShape(int i) const;
  // Any value of the graph that was made before this node.
  Value ValueOf(Output x) const;

  // Attributes by ONNX's names: integers, floats, texts, lists of them, tensors; a bool is an integer, a DType ONNX's
  // number of it.
  Value Op(std::string_view op, std::vector<Value> inputs, AttrMap attrs = {}) const;
  std::vector<Value> All(std::string_view op, std::vector<Value> inputs, int outputs, AttrMap attrs = {}) const;
  Value Const(const Tensor& value) const;
  Value Ints(const std::vector<int64_t>& values) const;
  Value Int(int64_t value) const;
  Value Scalar(DType dtype, double value) const;
  Value Cast(const Value& x, DType to) const;
  Value Transpose(const Value& x, const std::vector<int64_t>& perm) const;
  Value Reshape(const Value& x, const std::vector<int64_t>& dims) const;  // 0: as x has it
  Value Squeeze(const Value& x, std::vector<int64_t> axes) const;
  Value Unsqueeze(const Value& x, std::vector<int64_t> axes) const;
  Value Slice(const Value& x, int64_t axis, int64_t begin, int64_t end) const;
  Value Concat(std::vector<Value> parts, int64_t axis) const;

  void set_output(int port, Value value);
  void set_output_channels_first(int port, Value value);
  // The output is int64 here, while the graph's is int32: converted where somebody asks for it.
  void set_output_int64(int port, Value value);
  // The output is input i, in all its orders.
  void Forward(int port, int i);
  // Whether something that is exported uses the output.
  bool IsUsed(int port) const;
  // OK, or UNIMPLEMENTED naming the output where it is used: of outputs that only a backward pass needs.
  Status RefuseOutput(int port, std::string_view what) const;

  // Makes `bias` the third input of the Conv, ConvTranspose or Gemm (a MatMul becomes one) that gives input i, of which
  // this node is the only user; input i then has the bias. False, and nothing changed, where it is not so.
  bool AddBias(int i, const Value& bias);

 private:
  Exporter& exporter_;
  const Node& node_;
};

// One input, every element by itself: in the order in which it lies.
Status Elementwise(ExportContext& n, const std::function<Value(const Value& x)>& emit);
// Two inputs that broadcast, likewise.
Status ElementwisePair(ExportContext& n, const std::function<Value(const Value& x, const Value& y)>& emit);

// [batch, spatial…, channels] to [batch, channels, spatial…], and back.
std::vector<int64_t> ToChannelsFirst(int rank);
std::vector<int64_t> ToChannelsLast(int rank);

using ExportFunction = Status (*)(ExportContext&);

class ExporterRegistry {
 public:
  static ExporterRegistry& Global();
  // A second registration of an op stops the program.
  void Register(std::string_view op, ExportFunction function);
  ExportFunction Find(std::string_view op) const;  // nullptr: none
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
