#include "engine/onnx/import.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "engine/base/nearest.h"
#include "engine/gradients/gradients.h"
#include "engine/graph/scope.h"
#include "engine/onnx/arrange.h"
#include "engine/onnx/known_values.h"
#include "engine/onnx/operator.h"
#include "engine/onnx/tensor.h"
#include "engine/variables/variables.h"

namespace rivulet::onnx {
namespace {

// What a node's names mean: the graph's values, or a function's.
struct Frame {
  std::unordered_map<std::string, Output> values;
  std::map<std::string, int64_t> opsets;                           // by domain; "" is ONNX's own
  const std::map<std::string, proto::AttributeProto>* attributes;  // of the call; null outside functions
  int depth = 0;
};

std::string Domain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

// The model's name with characters that a graph's names may not have replaced.
std::string GraphName(std::string_view name, std::string_view otherwise) {
  std::string legal;
  for (char c : name) {
    const bool alphanumeric = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    legal += alphanumeric || c == '.' || (!legal.empty() && (c == '_' || c == '-' || c == '/')) ? c : '_';
  }
  while (!legal.empty() && legal.front() == '_') legal.erase(0, 1);
  while (!legal.empty() && legal.back() == '/') legal.pop_back();
  if (legal.size() > 200) legal.resize(200);
  return legal.empty() ? std::string(otherwise) : legal;
}

// Inputs that steer an operator and are no weights, by position.
// A limit of Clip may be a float tensor like any weight; training it would change the model into another.
bool IsParameter(std::string_view op, int input) {
  static const std::map<std::string_view, int> first_parameter = {
      {"Clip", 1}, {"Pad", 1},   {"Resize", 1}, {"Upsample", 1}, {"Dropout", 1},     {"OneHot", 1},
      {"Pow", 1},  {"Range", 0}, {"Tile", 1},   {"Cast", 0},     {"CastLike", 1},    {"Where", 1},
      {"Mod", 0},  {"Equal", 0}, {"Less", 0},   {"Greater", 0},  {"LessOrEqual", 0}, {"GreaterOrEqual", 0}};
  const auto found = first_parameter.find(op);
  return found != first_parameter.end() && input >= found->second;
}

// The nodes such that each comes after those that make its inputs, as the format wants it and older exporters do not
// write it; the order of the file where that is one already. INVALID_ARGUMENT: nodes that need each other.
StatusOr<std::vector<const proto::NodeProto*>> InOrder(
    const google::protobuf::RepeatedPtrField<proto::NodeProto>& nodes) {
  std::unordered_map<std::string_view, int> maker;
  for (int i = 0; i < nodes.size(); ++i)
    for (const std::string& output : nodes[i].output()) maker.emplace(output, i);
  std::vector<const proto::NodeProto*> ordered;
  enum class State : uint8_t { kNew, kOpen, kDone };
  std::vector<State> states(static_cast<size_t>(nodes.size()), State::kNew);
  std::vector<int> stack;  // in the place of recursion: a chain may be as long as the model
  const auto visit = [&](const std::string& value) -> Status {
    const auto found = value.empty() ? maker.end() : maker.find(value);
    if (found == maker.end()) return absl::OkStatus();
    const State state = states[static_cast<size_t>(found->second)];
    if (state == State::kOpen)
      return InvalidArgument("the value '{}' is needed to make itself: the nodes are in a cycle", value);
    if (state == State::kNew) stack.push_back(found->second);
    return absl::OkStatus();
  };
  for (int i = 0; i < nodes.size(); ++i) {
    if (states[static_cast<size_t>(i)] != State::kNew) continue;
    stack.push_back(i);
    while (!stack.empty()) {
      const int top = stack.back();
      const proto::NodeProto& node = nodes[top];
      State& state = states[static_cast<size_t>(top)];
      if (state == State::kNew) {
        state = State::kOpen;
        // The last that is pushed is made first: so the first input's maker comes first.
        for (int k = node.input_size(); k-- > 0;) RIVULET_RETURN_IF_ERROR(visit(node.input(k)));
        // Gradient names what it derives as well.
        for (const auto& attr : node.attribute())
          if (node.op_type() == "Gradient" && attr.name() == "y") RIVULET_RETURN_IF_ERROR(visit(attr.s()));
        continue;
      }
      stack.pop_back();
      if (state == State::kDone) continue;  // two nodes had pushed it
      state = State::kDone;
      ordered.push_back(&node);
    }
  }
  return ordered;
}

// Once nodes are in an order in which inputs come first (InOrder), one walk builds the graph, and every node is checked by
// Graph::AddNode as it comes. What cannot be told from one node, how each weight is used, is found in a walk before.
class Importer {
 public:
  // Of a graph of its own, `out`'s, or with `body` in `root`; `out` then receives what else there is to say.
  Importer(const proto::ModelProto& model, const ImportOptions& options, OnnxModel& out, const Scope& root,
           const OnnxBody* body = nullptr)
      : model_(model), options_(options), out_(out), root_(root), known_(root.graph()), body_(body) {
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
  void NameSizes(const proto::ValueInfoProto& info, Output value);
  Status AddInputs(Frame& frame);
  Status AddNode(const proto::NodeProto& node, Frame& frame, const Scope& scope);
  Status Convert(const proto::NodeProto& node, Frame& frame, const Scope& scope);
  Status Gradient(const proto::NodeProto& node, Frame& frame, const Scope& scope);
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
  std::unordered_set<std::string> parameters_;  // initializers that some node takes as a parameter
  std::unordered_set<std::string> statistics_;  // that are running statistics
  std::map<std::string, std::string> copies_;   // outputs of Identity, and what they are
  // How all uses of an initializer want it stored; kModel where one wants it as the model has it.
  enum class Layout { kFilter, kMatrix, kModel };
  std::unordered_map<std::string, Layout> layouts_;
  std::map<std::string, StoredWeight> stored_;  // weights in another order than the model's
  std::unordered_set<std::string> made_;        // by AddInitializers, of nodes that copy
  std::map<std::string, std::string> input_of_node_;
  std::set<std::string> batches_;  // names that the model gives to the batch's size
  int nodes_ = 0;
  const OnnxBody* body_ = nullptr;
  ModelForm form_;
  std::vector<Output> results_;
};

Status Importer::ReadOpsets(const google::protobuf::RepeatedPtrField<proto::OperatorSetIdProto>& from,
                            Frame& frame) const {
  for (const auto& entry : from) {
    const std::string domain = Domain(entry.domain());
    if (entry.version() < 1) return InvalidArgument("the opset {} of '{}' is no version", entry.version(), domain);
    if (domain.empty() && entry.version() > kNewestOpset)
      return Unimplemented("opset {} is newer than {}, the newest known here; convert the model to that one",
                           entry.version(), kNewestOpset);
    frame.opsets[domain] = entry.version();
  }
  return absl::OkStatus();
}

Status Importer::IndexFunctions() {
  for (const proto::FunctionProto& function : model_.functions()) {
    const std::tuple key(Domain(function.domain()), function.name(), function.overload());
    if (!functions_.emplace(key, &function).second)
      return InvalidArgument("the function '{}' is defined twice", function.name());
  }
  return absl::OkStatus();
}

// What a graph inside a node takes from outside, it takes as the model has it.
void Importer::FindUsesInside(const proto::GraphProto& graph) {
  for (const auto& node : graph.node()) {
    for (const std::string& input : node.input()) layouts_[input] = Layout::kModel;
    for (const auto& attr : node.attribute())
      if (attr.has_g()) FindUsesInside(attr.g());
  }
  for (const auto& output : graph.output()) layouts_[output.name()] = Layout::kModel;
}

// Our convolutions and products want their weights in another order than ONNX writes them. A weight that all its users
// want so is stored so, once and for all; one that anybody wants as it was is left, and transposed where it is used.
void Importer::FindUses(const proto::NodeProto& node) {
  const std::string domain = Domain(node.domain());
  const bool ours = domain.empty() && !functions_.contains({domain, node.op_type(), node.overload()});
  const auto transposes = [&](const char* name) {
    for (const auto& attr : node.attribute())
      if (attr.name() == name) return attr.i() != 0;
    return false;
  };
  for (const auto& attr : node.attribute())
    if (attr.has_g()) FindUsesInside(attr.g());
  for (int i = 0; i < node.input_size(); ++i) {
    Layout layout = Layout::kModel;
    if (ours && i == 1 && (node.op_type() == "Conv" || node.op_type() == "ConvTranspose")) layout = Layout::kFilter;
    if (ours && i == 1 && node.op_type() == "Gemm" && transposes("transB")) layout = Layout::kMatrix;
    const auto [known, first] = layouts_.emplace(node.input(i), layout);
    if (!first && known->second != layout) known->second = Layout::kModel;
    if (IsParameter(node.op_type(), i)) parameters_.insert(node.input(i));
    if (node.op_type() == "BatchNormalization" && i >= 3) statistics_.insert(node.input(i));
    if (ours && node.op_type() == "Identity" && node.output_size() == 1) copies_[node.output(0)] = node.input(i);
  }
}

Status Importer::Bind(Frame& frame, const std::string& name, Output value) const {
  if (!frame.values.emplace(name, value).second) return InvalidArgument("the value '{}' is made twice", name);
  return absl::OkStatus();
}

std::vector<int64_t> Importer::StoredOrder(const std::string& name, const Tensor& value) const {
  const auto layout = layouts_.find(name);
  if (layout == layouts_.end()) return {};
  const int rank = value.shape().rank();
  if (layout->second == Layout::kFilter && rank == 4) return {2, 3, 1, 0};
  if (layout->second == Layout::kFilter && rank == 3) return {2, 1, 0};
  if (layout->second == Layout::kMatrix && rank == 2) return {1, 0};
  return {};
}

Output Importer::Variable(OnnxWeight& weight) {
  const std::string wanted = GraphName(weight.name, "weight");
  std::string variable = wanted;
  for (int count = 1; root_.graph().Find(variable) != nullptr; ++count) variable = fmt::format("{}_{}", wanted, count);
  const DType dtype = weight.value.dtype();
  AttrMap attrs = {{"dtype", dtype},
                   {"shape", weight.value.shape()},
                   {"shared_name", variable},
                   {std::string(kSegmentAttr), weight.segment}};
  if (!weight.perm.empty()) attrs["_onnx_perm"] = weight.perm;
  const Output handle = root_.Op("VarHandleOp", {}, std::move(attrs), variable);
  weight.variable = variable;
  if (!handle) return {};
  return root_.Op("ReadVariableOp", {handle}, {{"dtype", dtype}}, variable + "/Read");
}

// The order goes along with the weight, so that a trained one can be written back as the model had it.
Output Importer::Weight(const std::string& name, Tensor value) {
  OnnxWeight weight{name, "", statistics_.contains(name) ? "shared" : "trainable", std::move(value), {}};
  if (const std::vector<int64_t> order = StoredOrder(name, weight.value); !order.empty()) {
    StatusOr<Tensor> arranged = ArrangeTensor(weight.value, order);
    if (!arranged.ok()) {
      root_.Fail(arranged.status());
      return {};
    }
    weight.value = *std::move(arranged);
    weight.perm = InversePermutation(order);
  }
  const Output read = body_ != nullptr ? body_->weight(weight) : Variable(weight);
  if (!weight.perm.empty() && read) stored_[name] = {read, weight.perm};
  out_.weights.push_back(std::move(weight));
  return read;
}

Status Importer::AddInitializers(Frame& frame) {
  if (model_.graph().sparse_initializer_size() > 0)
    return Unimplemented("sparse initializers; '{}' is one", model_.graph().sparse_initializer(0).values().name());
  std::map<std::string, const proto::TensorProto*> weights;
  for (const proto::TensorProto& initializer : model_.graph().initializer()) {
    const std::string& name = initializer.name();
    if (options_.constants.contains(name)) continue;
    StatusOr<Tensor> value = TensorFromOnnx(initializer, {options_.folder});
    if (!value.ok()) return Annotate(value.status(), fmt::format("the initializer '{}'", name));
    initialized_.insert(name);
    const bool weight =
        IsFloating(value->dtype()) && value->shape().rank() > 0 && value->elements() > 0 && !parameters_.contains(name);
    const Output output =
        weight ? Weight(name, *std::move(value)) : root_.Const(*std::move(value), GraphName(name, "constant"));
    RIVULET_RETURN_IF_ERROR(root_.status());
    RIVULET_RETURN_IF_ERROR(Bind(frame, name, output));
    if (weight) weights.emplace(name, &initializer);
  }
  // Exporters write equal tensors once: running statistics that begin as a weight does are variables of their own.
  for (const auto& [copy, original] : copies_) {
    const auto found = weights.find(original);
    if (found == weights.end() || !statistics_.contains(copy) || statistics_.contains(original)) continue;
    RIVULET_ASSIGN_OR_RETURN(Tensor value, TensorFromOnnx(*found->second, {options_.folder}));
    RIVULET_RETURN_IF_ERROR(Bind(frame, copy, Weight(copy, std::move(value))));
    RIVULET_RETURN_IF_ERROR(root_.status());
    made_.insert(copy);
  }
  return absl::OkStatus();
}

StatusOr<TensorSpec> SpecOf(const proto::ValueInfoProto& info) {
  if (!info.has_type() || !info.type().has_tensor_type()) return Unimplemented("'{}' is not a tensor", info.name());
  const auto& type = info.type().tensor_type();
  const StatusOr<DType> dtype = DTypeFromOnnx(type.elem_type());
  if (!dtype.ok()) return Annotate(dtype.status(), fmt::format("'{}'", info.name()));
  TensorSpec spec{*dtype, Shape::UnknownRank()};
  if (!type.has_shape()) return spec;
  if (type.shape().dim_size() > 254) return InvalidArgument("'{}' has {} axes", info.name(), type.shape().dim_size());
  std::vector<int64_t> dims;
  int64_t known_elements = 1;
  for (const auto& dim : type.shape().dim()) {
    // Exporters write 0 or -1 for a size that is open too.
    const bool known = dim.has_dim_value() && dim.dim_value() >= 0;
    dims.push_back(known ? dim.dim_value() : kUnknownDim);
    if (!known || dim.dim_value() == 0) continue;
    if (dim.dim_value() > (int64_t{1} << 40) / known_elements)
      return InvalidArgument("'{}' has more than 2^40 elements", info.name());
    known_elements *= dim.dim_value();
  }
  spec.shape = Shape(std::move(dims));
  return spec;
}

// Sizes that the model calls by one name are equal. Examples come in batches: the first sizes of a body's inputs are one.
void Importer::NameSizes(const proto::ValueInfoProto& info, Output value) {
  if (!value || !value.shape().known_rank()) return;
  const auto& dims = info.type().tensor_type().shape().dim();
  for (int axis = 0; axis < value.shape().rank() && axis < dims.size(); ++axis) {
    if (value.shape().dim(axis) != kUnknownDim) continue;
    std::string name = dims[axis].dim_param();
    if (body_ != nullptr && (axis == 0 || batches_.contains(name))) {
      if (!name.empty()) batches_.insert(name);
      name = "batch";
    }
    if (!name.empty()) known_.symbols().Name(value, axis, name);
  }
}

Status Importer::AddInputs(Frame& frame) {
  size_t given = 0;  // of a body's inputs
  for (const proto::ValueInfoProto& info : model_.graph().input()) {
    const std::string& name = info.name();
    if (initialized_.contains(name)) continue;
    if (name.empty()) return InvalidArgument("an input of the graph has no name");
    if (const auto constant = options_.constants.find(name); constant != options_.constants.end()) {
      RIVULET_RETURN_IF_ERROR(Bind(frame, name, root_.Const(constant->second, GraphName(name, "input"))));
      continue;
    }
    RIVULET_ASSIGN_OR_RETURN(TensorSpec spec, SpecOf(info));
    if (body_ != nullptr) {
      if (given >= body_->inputs.size())
        return InvalidArgument("the model has more than {} inputs; '{}' is one", given, name);
      const Output input = body_->inputs[given++];
      if (input.dtype() != spec.dtype)
        return InvalidArgument("the input '{}' is {}, not {}", name, Name(spec.dtype), Name(input.dtype()));
      NameSizes(info, input);
      out_.inputs.push_back({name, input.name(), spec});
      RIVULET_RETURN_IF_ERROR(Bind(frame, name, input));
      continue;
    }
    if (const auto shape = options_.shapes.find(name); shape != options_.shapes.end()) {
      if (spec.shape.known_rank() && spec.shape.rank() != shape->second.rank())
        return InvalidArgument("the input '{}' has shape {}, which {} does not fit", name, spec.shape.ToString(),
                               shape->second.ToString());
      spec.shape = shape->second;
    }
    const Output placeholder = root_.Placeholder(GraphName(name, "input"), spec.dtype, spec.shape);
    if (!placeholder) return root_.status();
    NameSizes(info, placeholder);
    input_of_node_[placeholder.node->name()] = name;
    out_.inputs.push_back({name, placeholder.name(), spec});
    RIVULET_RETURN_IF_ERROR(Bind(frame, name, placeholder));
  }
  return root_.status();
}

// Functions of the model's own come before operators: a model may define what an operator of its opset does.
Status Importer::Convert(const proto::NodeProto& node, Frame& frame, const Scope& scope) {
  const std::string domain = Domain(node.domain());
  const auto function = functions_.find({domain, node.op_type(), node.overload()});
  if (function != functions_.end()) return Call(*function->second, node, frame, scope);
  if (domain == "ai.onnx.preview.training" && node.op_type() == "Gradient") return Gradient(node, frame, scope);
  const Operator* op = OperatorRegistry::Global().Find(domain, node.op_type());
  if (op == nullptr) {
    std::vector<std::string> known;
    for (const Operator* other : OperatorRegistry::Global().All()) known.push_back(other->name);
    const std::string where = domain.empty() ? "" : fmt::format(" of '{}'", domain);
    return Unimplemented("the operator {}{} is not supported.{}", node.op_type(), where,
                         DidYouMean(node.op_type(), known));
  }
  const auto opset = frame.opsets.find(domain);
  if (opset == frame.opsets.end() && !domain.empty() && domain != "ai.onnx.preview.training")
    return InvalidArgument("the model imports no opset of '{}'", domain);
  std::vector<Output> inputs;
  std::vector<StoredWeight*> stored;
  for (const std::string& name : node.input()) {
    inputs.emplace_back();
    stored.push_back(nullptr);
    if (name.empty()) continue;
    const auto found = frame.values.find(name);
    if (found == frame.values.end())
      return InvalidArgument("its input '{}' is no input, no initializer and made by no node before it", name);
    // Inside of a function a weight is an argument like any other, and its name means the caller's value.
    const auto weight = frame.attributes == nullptr ? stored_.find(name) : stored_.end();
    if (weight != stored_.end())
      stored.back() = &weight->second;
    else
      inputs.back() = found->second;  // empty inside a function where the caller left it out
  }
  NodeContext context(node, opset == frame.opsets.end() ? 1 : opset->second, Builder(scope), std::move(inputs), known_,
                      std::move(stored), body_ != nullptr ? &form_ : nullptr);
  RIVULET_RETURN_IF_ERROR(op->convert(context));
  RIVULET_RETURN_IF_ERROR(context.status());
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty()) continue;
    const Output value = context.outputs()[static_cast<size_t>(i)];
    if (!value) return Unimplemented("its output {} ('{}')", i, node.output(i));
    RIVULET_RETURN_IF_ERROR(Bind(frame, node.output(i), value));
  }
  return absl::OkStatus();
}

// The derivatives of the value `y` by the values `xs`, which are its first inputs; those that y's other inputs `zs`
// hold follow from the graph.
// By our own gradients over what has been built so far, so that training models of ONNX's need no operator of theirs
// for each of ours.
Status Importer::Gradient(const proto::NodeProto& node, Frame& frame, const Scope& scope) {
  std::vector<std::string> xs;
  std::string y;
  for (const auto& attr : node.attribute()) {
    if (attr.name() == "xs") xs.assign(attr.strings().begin(), attr.strings().end());
    if (attr.name() == "y") y = attr.s();
  }
  if (static_cast<int>(xs.size()) != node.output_size() || node.input_size() < node.output_size())
    return InvalidArgument("derives by {} values, and has {} outputs", xs.size(), node.output_size());
  const auto value = [&](const std::string& name) -> StatusOr<Output> {
    const auto found = frame.values.find(name);
    if (found == frame.values.end() || !found->second) return InvalidArgument("the value '{}' is not there", name);
    return found->second;
  };
  RIVULET_ASSIGN_OR_RETURN(const Output of, value(y));
  if (!of.shape().known_rank()) return FailedPrecondition("the rank of '{}' must be known", y);
  std::vector<Output> by;
  for (int i = 0; i < node.output_size(); ++i) {
    RIVULET_ASSIGN_OR_RETURN(const Output x, value(node.input(i)));
    by.push_back(x);
  }
  const Builder builder(scope);
  std::vector<int64_t> axes;
  for (int axis = 0; axis < of.shape().rank(); ++axis) axes.push_back(axis);
  const Output sum = builder.Reduce("Sum", of, axes, false);
  RIVULET_RETURN_IF_ERROR(builder.status());
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Output> gradients, ComputeGradients(root_.graph(), sum, by));
  for (int i = 0; i < node.output_size(); ++i)
    RIVULET_RETURN_IF_ERROR(Bind(frame, node.output(i), gradients[static_cast<size_t>(i)]));
  return absl::OkStatus();
}

// Counted over calls as well: a function that calls another twice, and so on, would be a graph without bound.
Status Importer::AddNode(const proto::NodeProto& original, Frame& frame, const Scope& scope) {
  const auto opset = frame.opsets.find(Domain(original.domain()));
  const std::string where = fmt::format("{} '{}' (opset {})", original.op_type(), original.name(),
                                        opset == frame.opsets.end() ? 0 : opset->second);
  if (++nodes_ > options_.limits.nodes)
    return ResourceExhausted("the model has more than {} nodes", options_.limits.nodes);
  for (const auto& attr : original.attribute())
    if (attr.has_g() || attr.graphs_size() > 0)
      return Unimplemented("{}: it has a graph of its own; control flow is not supported", where);
  // Inside a function, attributes that refer to the call's are replaced by these.
  const proto::NodeProto* node = &original;
  proto::NodeProto resolved;
  if (frame.attributes != nullptr) {
    resolved = original;
    resolved.clear_attribute();
    for (const auto& attr : original.attribute()) {
      if (attr.ref_attr_name().empty()) {
        *resolved.add_attribute() = attr;
      } else if (const auto given = frame.attributes->find(attr.ref_attr_name()); given != frame.attributes->end()) {
        *resolved.add_attribute() = given->second;
        resolved.mutable_attribute(resolved.attribute_size() - 1)->set_name(attr.name());
      }
    }
    node = &resolved;
  }
  const std::string name = GraphName(original.name().empty() ? original.op_type() : original.name(), "node");
  return Annotate(Convert(*node, frame, scope.SubScope(name)), where);
}

// A function's body is put in the place of its call, with a frame of its own for names. That keeps the imported graph
// flat, and a shape that depends on the caller's values is known in it.
Status Importer::Call(const proto::FunctionProto& function, const proto::NodeProto& call, Frame& frame,
                      const Scope& scope) {
  if (frame.depth >= options_.limits.call_depth)
    return InvalidArgument("functions call each other more than {} deep", options_.limits.call_depth);
  std::map<std::string, proto::AttributeProto> attributes;
  for (const auto& attr : function.attribute_proto()) attributes[attr.name()] = attr;
  for (const auto& attr : call.attribute()) attributes[attr.name()] = attr;
  Frame inner{{}, {}, &attributes, frame.depth + 1};
  RIVULET_RETURN_IF_ERROR(ReadOpsets(function.opset_import(), inner));
  if (call.input_size() > function.input_size())
    return InvalidArgument("gives {} inputs to a function of {}", call.input_size(), function.input_size());
  for (int i = 0; i < function.input_size(); ++i) {
    Output value;
    if (i < call.input_size() && !call.input(i).empty()) {
      const auto found = frame.values.find(call.input(i));
      if (found == frame.values.end()) return InvalidArgument("its input '{}' is not there", call.input(i));
      value = found->second;
    }
    RIVULET_RETURN_IF_ERROR(Bind(inner, function.input(i), value));
  }
  RIVULET_ASSIGN_OR_RETURN(const auto nodes, InOrder(function.node()));
  for (const proto::NodeProto* node : nodes) RIVULET_RETURN_IF_ERROR(AddNode(*node, inner, scope));
  if (call.output_size() > function.output_size())
    return InvalidArgument("takes {} outputs of a function of {}", call.output_size(), function.output_size());
  for (int i = 0; i < call.output_size(); ++i) {
    if (call.output(i).empty()) continue;
    const auto found = inner.values.find(function.output(i));
    if (found == inner.values.end())
      return InvalidArgument("the function makes no value '{}', its output {}", function.output(i), i);
    RIVULET_RETURN_IF_ERROR(Bind(frame, call.output(i), found->second));
  }
  return absl::OkStatus();
}

// An Identity gives an output its name, since two outputs may be one value, and an input may be an output.
Status Importer::AddOutputs(const Frame& frame) {
  std::unordered_set<std::string> seen;
  for (const proto::ValueInfoProto& info : model_.graph().output()) {
    const auto found = frame.values.find(info.name());
    if (found == frame.values.end() || !found->second)
      return InvalidArgument("the output '{}' of the graph is made by no node", info.name());
    if (!seen.insert(info.name()).second) return InvalidArgument("the output '{}' stands twice", info.name());
    results_.push_back(found->second);
    if (body_ != nullptr) continue;
    const Output output = root_.Op("Identity", {found->second}, {}, GraphName(info.name(), "output"));
    RIVULET_RETURN_IF_ERROR(root_.status());
    out_.outputs.push_back({info.name(), output.name(), {output.dtype(), output.shape()}});
  }
  if (results_.empty()) return InvalidArgument("the graph has no outputs");
  return absl::OkStatus();
}

Status Importer::Run() {
  Frame frame{{}, {}, nullptr, 0};
  if (!model_.has_graph()) return InvalidArgument("the model has no graph");
  RIVULET_RETURN_IF_ERROR(ReadOpsets(model_.opset_import(), frame));
  if (frame.opsets.empty()) {
    if (model_.ir_version() >= 3) return InvalidArgument("the model imports no opset");
    frame.opsets[""] = 1;
  }
  RIVULET_RETURN_IF_ERROR(IndexFunctions());
  RIVULET_ASSIGN_OR_RETURN(const auto nodes, InOrder(model_.graph().node()));
  for (const proto::NodeProto* node : nodes) FindUses(*node);
  for (const auto& output : model_.graph().output()) layouts_[output.name()] = Layout::kModel;
  RIVULET_RETURN_IF_ERROR(AddInitializers(frame));
  RIVULET_RETURN_IF_ERROR(AddInputs(frame));
  for (const auto& [name, tensor] : options_.constants)
    if (!frame.values.contains(name)) return NotFound("the model has no input '{}' to be given a value", name);
  for (const auto& [name, shape] : options_.shapes) {
    if (frame.values.contains(name)) continue;
    std::vector<std::string> names;
    for (const OnnxValue& input : out_.inputs) names.push_back(input.name);
    return NotFound("the model has no input '{}' to be given a shape.{}", name, DidYouMean(name, names));
  }
  for (const proto::NodeProto* node : nodes) {
    if (node->op_type() == "Identity" && node->output_size() == 1 && made_.contains(node->output(0))) continue;
    RIVULET_RETURN_IF_ERROR(AddNode(*node, frame, root_));
  }
  return AddOutputs(frame);
}

StatusOr<proto::ModelProto> ParseModel(std::string_view bytes, const ImportLimits& limits) {
  if (bytes.size() > limits.bytes || bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()))
    return ResourceExhausted("a model of {} bytes", bytes.size());
  proto::ModelProto model;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
      (!model.has_graph() && !model.has_ir_version()))
    return DataLoss("these bytes are no ModelProto of ONNX's");
  return model;
}

}  // namespace

StatusOr<ModelSummary> SummarizeOnnx(std::string_view bytes) {
  RIVULET_ASSIGN_OR_RETURN(const proto::ModelProto model, ParseModel(bytes, {}));
  ModelSummary summary;
  std::set<std::string> ops, initialized;
  for (const auto& node : model.graph().node()) ops.insert(node.op_type());
  for (const auto& initializer : model.graph().initializer()) initialized.insert(initializer.name());
  for (const auto& input : model.graph().input()) {
    summary.all_inputs.push_back(input.name());
    if (!initialized.contains(input.name())) summary.inputs.push_back(input.name());
  }
  summary.ops.assign(ops.begin(), ops.end());
  return summary;
}

StatusOr<std::vector<OnnxValue>> OnnxInputs(std::string_view bytes) {
  RIVULET_ASSIGN_OR_RETURN(const proto::ModelProto model, ParseModel(bytes, {}));
  std::unordered_set<std::string> initialized;
  for (const auto& initializer : model.graph().initializer()) initialized.insert(initializer.name());
  std::vector<OnnxValue> inputs;
  for (const auto& input : model.graph().input()) {
    if (initialized.contains(input.name())) continue;
    RIVULET_ASSIGN_OR_RETURN(TensorSpec spec, SpecOf(input));
    inputs.push_back({input.name(), "", std::move(spec)});
  }
  return inputs;
}

StatusOr<OnnxBodyOutputs> BuildOnnx(std::string_view bytes, const Scope& scope, const OnnxBody& body,
                                    const ImportOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const proto::ModelProto model, ParseModel(bytes, options.limits));
  OnnxModel described;
  Importer importer(model, options, described, scope, &body);
  RIVULET_RETURN_IF_ERROR(importer.Run());
  if (described.inputs.size() != body.inputs.size())
    return InvalidArgument("the model has {} inputs, not {}", described.inputs.size(), body.inputs.size());
  return OnnxBodyOutputs{importer.results(), importer.form().differs, importer.form().updates};
}

StatusOr<OnnxModel> ImportOnnx(std::string_view bytes, const ImportOptions& options, std::set<std::string>* needed) {
  RIVULET_ASSIGN_OR_RETURN(const proto::ModelProto model, ParseModel(bytes, options.limits));
  OnnxModel out;
  Importer importer(model, options, out, Scope(out.graph));
  const Status status = importer.Run();
  if (needed != nullptr) {
    needed->clear();
    for (const std::string& node : importer.known().needed()) {
      const auto found = importer.input_of_node().find(node);
      if (found != importer.input_of_node().end()) needed->insert(found->second);
    }
  }
  if (!status.ok()) return status;
  return out;
}

}  // namespace rivulet::onnx
