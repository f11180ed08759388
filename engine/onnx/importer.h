// State of one import. Nodes are first ordered so that inputs come before consumers (InOrder); then one traversal
// builds the graph. The parts are in import.cc (inputs, outputs, the traversal), import_initializers.cc,
// import_nodes.cc (operators and functions) and import_sequences.cc (known branches, lists of tensors).
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/onnx/import.h"
#include "engine/onnx/known_values.h"
#include "engine/onnx/operator.h"
#include "engine/onnx/weight_places.h"

namespace rivulet::onnx {

// The scope of a node's names: that of the graph, or of a function.
struct Frame {
  std::unordered_map<std::string, Output> values;
  std::unordered_map<std::string, std::vector<Output>> sequences;  // their elements are tensors of the graph
  std::map<std::string, int64_t> opsets;                           // by domain; "" is ONNX's own
  const std::map<std::string, proto::AttributeProto>* attributes;  // attributes of the call; null outside functions
  int depth = 0;
};

std::string DomainOf(const std::string& domain);  // "" for ONNX's own domain

// Returns the model's name with characters replaced that are not allowed in graphs.
std::string GraphName(std::string_view name, std::string_view otherwise);

// Returns the nodes in an order in which inputs come first. The format requires this, but older exporters do not
// comply. An order that is already valid is kept. INVALID_ARGUMENT: nodes that depend on each other.
StatusOr<std::vector<const proto::NodeProto*>> InOrder(
    const google::protobuf::RepeatedPtrField<proto::NodeProto>& nodes);

// Returns the remedies for an import, or for a training caller with `body`.
Remedies RemediesFor(const OnnxBody* body);

StatusOr<TensorSpec> SpecOf(const proto::ValueInfoProto& info);

// One import. One traversal of the ordered nodes (InOrder) builds the graph, and Graph::AddNode checks every node. A
// previous traversal finds how each weight is used, since single nodes do not show this.
class Importer {
 public:
  // Imports into the graph of `out`, or with `body` into `root`; `out` then receives the other results.
  Importer(const proto::ModelProto& model, const ImportOptions& options, OnnxModel& out, const Scope& root,
           const OnnxBody* body = nullptr)
      : model_(model), options_(options), out_(out), root_(root), known_(root.graph(), RemediesFor(body)), body_(body) {
    form_.training = body != nullptr && body->training;
  }

  Status Run();
  const ModelForm& form() const { return form_; }
  const std::vector<Output>& results() const { return results_; }
  const KnownValues& known() const { return known_; }
  const std::map<std::string, std::string>& input_of_node() const { return input_of_node_; }

 private:
  Status ReadOpsets(const google::protobuf::RepeatedPtrField<proto::OperatorSetIdProto>& from, Frame& frame) const;
  Status IndexFunctions();
  void FindUses(const proto::NodeProto& node);
  Status AddInitializers(Frame& frame);
  Output WithoutPaddingRow(const proto::NodeProto& node, const Frame& frame, const Scope& scope, Output rows) const;
  StatusOr<std::string> OriginalOf(const std::string& name, const Tensor& value) const;
  Status CheckMerged(const std::string& name, const Tensor& value) const;
  void NameSizes(const proto::ValueInfoProto& info, Output value);
  Status AddInputs(Frame& frame);
  Status AddNode(const proto::NodeProto& node, Frame& frame, const Scope& scope);
  Status Convert(const proto::NodeProto& node, Frame& frame, const Scope& scope);
  Status Gradient(const proto::NodeProto& node, Frame& frame, const Scope& scope);
  Status Branch(const proto::NodeProto& node, Frame& frame, const Scope& scope);
  Status Sequence(const proto::NodeProto& node, Frame& frame, const Scope& scope, bool& done);
  Status Call(const proto::FunctionProto& function, const proto::NodeProto& call, Frame& frame, const Scope& scope);
  Status AddOutputs(const Frame& frame);
  Status Bind(Frame& frame, const std::string& name, Output value) const;
  void FindUsesInside(const proto::GraphProto& graph);
  Output Weight(const std::string& name, Tensor value);
  Output Variable(OnnxWeight& weight);
  std::vector<int64_t> StoredOrder(const std::string& name, const Tensor& value) const;

  const proto::ModelProto& model_;
  const ImportOptions& options_;
  OnnxModel& out_;
  Scope root_;
  KnownValues known_;
  std::map<std::tuple<std::string, std::string, std::string>, const proto::FunctionProto*> functions_;
  std::unordered_set<std::string> initialized_;
  WeightPlaces places_;
  std::map<std::string, std::string> copies_;  // output of an Identity → its input
  // The layout that all uses of an initializer require; kModel if one requires the model's own.
  enum class Layout { kFilter, kMatrix, kModel };
  std::unordered_map<std::string, Layout> layouts_;
  std::map<std::string, StoredWeight> stored_;  // weights whose layout differs from the model's
  std::unordered_set<std::string> made_;        // made by AddInitializers for nodes that copy
  std::map<std::string, std::string> input_of_node_;
  std::set<std::string> batches_;  // the model's names for the batch size
  int nodes_ = 0;
  const OnnxBody* body_ = nullptr;
  ModelForm form_;
  std::vector<Output> results_;
};

}  // namespace rivulet::onnx
