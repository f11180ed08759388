// Converter of an ONNX operator: a function that builds Rivulet's ops for one node. Each family's file registers its
// converters:
//
//   Status Relu(NodeContext& n) {
//     n.set_output(0, n.b().Op("Relu", {n.input(0)}));
//     return n.status();
//   }
//   RIVULET_ONNX("Relu", Relu);
//
// One function serves every version of its operator; n.opset() returns the version. Errors stick: a converter checks
// them before it uses a value, and the importer adds operator, node and opset to the message.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/dimension.h"
#include "engine/onnx/builder.h"
#include "proto/onnx/onnx.pb.h"

namespace rivulet::onnx {

class KnownValues;  // engine/onnx/known_values.h

// A weight that the graph stores in the engine's layout: filters as [spatial…, in / groups, out], the matrix of a dense
// layer as [in, out]. So no step transposes it.
struct StoredWeight {
  Output stored;
  std::vector<int64_t> perm;  // `stored` transposed by this is the model's value
  Output model = {};          // the model's value, once it was requested
};

// Whether a model is built for evaluation or training, and results that its nodes report.
struct ModelForm {
  bool training = false;             // in: dropout is active; normalisations use the batch, update running statistics
  bool differs = false;              // out: true if a node differs in training
  std::vector<std::string> updates;  // out: further nodes that a training step must run
};

class NodeContext {
 public:
  // `inputs` has an empty Output for each omitted input, and for each one in `stored` (as long, or empty).
  NodeContext(const proto::NodeProto& node, int64_t opset, const Builder& builder, std::vector<Output> inputs,
              KnownValues& known, std::vector<StoredWeight*> stored = {}, ModelForm* form = nullptr);

  const Builder& b() const { return builder_; }
  int64_t opset() const { return opset_; }
  std::string_view op_type() const { return node_.op_type(); }
  // The builder's status. INVALID_ARGUMENT also: an attribute of an unexpected kind, or a missing input.
  const Status& status() const { return builder_.status(); }
  Status Fail(Status status) const {
    builder_.Fail(std::move(status));
    return builder_.status();
  }

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  bool has_input(int i) const { return i < num_inputs() && (inputs_[static_cast<size_t>(i)] || stored(i) != nullptr); }
  Output input(int i) const;           // required
  Output optional_input(int i) const;  // empty if omitted
  // Returns true if input i is a weight that the graph stores in another layout than the model's.
  bool IsStored(int i) const { return stored(i) != nullptr; }
  // Returns input i transposed by `perm`. No node is added for a weight that the graph stores in this layout.
  Output Transposed(int i, const std::vector<int64_t>& perm) const;
  const std::vector<Output>& inputs() const { return inputs_; }

  // Returns true if this node, which differs in training, is to be built in its training form: as the importer's caller
  // requests, otherwise as the model says.
  bool Trains(bool model_says) const;
  // True if a training step is built that updates running statistics. A node for that is registered with AddUpdate.
  bool MovesStatistics() const { return form_ != nullptr && form_->training; }
  void AddUpdate(std::string node) const { form_->updates.push_back(std::move(node)); }

  int num_outputs() const { return node_.output_size(); }
  bool wants_output(int i) const { return i < num_outputs() && !node_.output(i).empty(); }
  void set_output(int i, Output value);
  const std::vector<Output>& outputs() const { return outputs_; }

  bool has_attr(std::string_view name) const { return Find(name) != nullptr; }
  int64_t Int(std::string_view name, int64_t otherwise) const;
  double Float(std::string_view name, double otherwise) const;
  std::string String(std::string_view name, std::string_view otherwise) const;
  std::vector<int64_t> Ints(std::string_view name, std::vector<int64_t> otherwise = {}) const;
  std::vector<float> Floats(std::string_view name) const;
  std::vector<std::string> Strings(std::string_view name) const;
  StatusOr<Tensor> TensorAttr(std::string_view name) const;
  bool Flag(std::string_view name, bool otherwise) const { return Int(name, otherwise) != 0; }
  // Returns UNIMPLEMENTED, naming the attribute, if it is set: for attributes that no converter supports.
  Status Refuse(std::string_view attr) const;

  // Returns the input's value, which must follow from constants and known shapes. FAILED_PRECONDITION: it depends on
  // inputs of the model. Those inputs are recorded, so that the caller can set them as constants.
  StatusOr<Tensor> Value(int i) const;
  StatusOr<std::vector<int64_t>> IntValues(int i) const;  // of any integer type or bool, flattened
  StatusOr<int64_t> IntValue(int i) const;                // must have one element
  StatusOr<std::vector<double>> NumberValues(int i) const;
  // As IntValues, but nullopt if the value is unknown, and dependencies are not recorded.
  std::optional<std::vector<int64_t>> IntValuesIfKnown(int i) const;
  // Returns the elements of input i, an integer tensor that follows from constants and shapes. An element is a number,
  // or an expression in unknown sizes. FAILED_PRECONDITION: an element depends on inputs of the model.
  StatusOr<std::vector<Dimension>> IntElements(int i) const;
  // Returns element `at` of input i, a vector of integers, as an int64 scalar of the graph.
  Output Element(int i, const std::vector<Dimension>& elements, size_t at) const;
  // Returns the sizes of input i: numbers, or expressions if unknown. FAILED_PRECONDITION: its rank is unknown.
  StatusOr<std::vector<Dimension>> Sizes(int i) const;

  // Return input i's rank, and its shape. FAILED_PRECONDITION: unknown here.
  StatusOr<int> Rank(int i) const;
  StatusOr<Shape> KnownShape(int i) const;
  // Returns `axis`, in [-rank, rank), as an index in [0, rank).
  StatusOr<int> Axis(int64_t axis, int rank) const;
  StatusOr<std::vector<int64_t>> Axes(std::vector<int64_t> axes, int rank) const;  // without duplicates, sorted

 private:
  const proto::AttributeProto* Find(std::string_view name, int kind = 0) const;
  const proto::NodeProto& node_;
  int64_t opset_;
  Builder builder_;
  StoredWeight* stored(int i) const {
    return static_cast<size_t>(i) < stored_.size() ? stored_[static_cast<size_t>(i)] : nullptr;
  }
  std::vector<Output> inputs_;
  std::vector<Output> outputs_;
  KnownValues& known_;
  std::vector<StoredWeight*> stored_;
  ModelForm* form_;
};

using Converter = Status (*)(NodeContext&);

struct Operator {
  std::string domain;  // "" for ONNX's own
  std::string name;
  Converter convert = nullptr;
};

class OperatorRegistry {
 public:
  static OperatorRegistry& Global();
  // Registers an operator. The program aborts if a name is registered twice.
  void Register(Operator op);
  const Operator* Find(std::string_view domain, std::string_view name) const;  // "ai.onnx" is ""
  std::vector<const Operator*> All() const;                                    // by domain and name

 private:
  std::map<std::pair<std::string, std::string>, Operator> operators_;
};

namespace internal {
struct OperatorRegistration {
  OperatorRegistration(const char* domain, const char* name, Converter convert) {
    OperatorRegistry::Global().Register({domain, name, convert});
  }
};
}  // namespace internal

// The converter may be a lambda that contains commas.
#define RIVULET_ONNX(name, ...) RIVULET_ONNX_IN("", name, __VA_ARGS__)
#define RIVULET_ONNX_IN(domain, name, ...) RIVULET_ONNX_IMPL_(__COUNTER__, domain, name, __VA_ARGS__)
#define RIVULET_ONNX_IMPL_(counter, domain, name, ...) RIVULET_ONNX_IMPL2_(counter, domain, name, __VA_ARGS__)
#define RIVULET_ONNX_IMPL2_(counter, domain, name, ...)                                                              \
  [[maybe_unused]] static const ::rivulet::onnx::internal::OperatorRegistration rivulet_onnx_##counter(domain, name, \
                                                                                                       __VA_ARGS__)

}  // namespace rivulet::onnx
