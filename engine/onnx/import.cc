#include <limits>

#include "engine/base/nearest.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/tensor.h"

namespace rivulet::onnx {

std::string DomainOf(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

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
        // Gradient also names derived values.
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

Status Importer::ReadOpsets(const google::protobuf::RepeatedPtrField<proto::OperatorSetIdProto>& from,
                            Frame& frame) const {
  for (const auto& entry : from) {
    const std::string domain = DomainOf(entry.domain());
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
    const std::tuple key(DomainOf(function.domain()), function.name(), function.overload());
    if (!functions_.emplace(key, &function).second)
      return InvalidArgument("the function '{}' is defined twice", function.name());
  }
  return absl::OkStatus();
}

Status Importer::Bind(Frame& frame, const std::string& name, Output value) const {
  if (!frame.values.emplace(name, value).second) return InvalidArgument("the value '{}' is made twice", name);
  return absl::OkStatus();
}

Remedies RemediesFor(const OnnxBody* body) {
  if (body == nullptr)
    return {"; give the sizes of the model's inputs with --shape",
            "; give them with --value, which makes them constants"};
  return {"; give model.input.shape, unless it is the batch, which no rank and no axis may depend on",
          "; a model of constant ones is made by rivulet model import --value"};
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

// Sizes that the model calls by one name are equal. Examples come in batches: the first sizes of a body's inputs are
// one.
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

// An Identity gives an output its name, since two outputs may be one value, and an input may be an output.
Status Importer::AddOutputs(const Frame& frame) {
  std::unordered_set<std::string> seen;
  for (const proto::ValueInfoProto& info : model_.graph().output()) {
    const auto found = frame.values.find(info.name());
    if (found == frame.values.end() || !found->second)
      return InvalidArgument("the output '{}' of the graph is made by no node", info.name());
    if (!seen.insert(info.name()).second) return InvalidArgument("the output '{}' is listed twice", info.name());
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
  Frame frame{{}, {}, {}, nullptr, 0};
  if (!model_.has_graph()) return InvalidArgument("the model has no graph");
  RIVULET_RETURN_IF_ERROR(ReadOpsets(model_.opset_import(), frame));
  if (frame.opsets.empty()) {
    if (model_.ir_version() >= 3) return InvalidArgument("the model imports no opset");
    frame.opsets[""] = 1;
  }
  RIVULET_RETURN_IF_ERROR(IndexFunctions());
  RIVULET_ASSIGN_OR_RETURN(places_, WeightPlaces::Find(model_, options_.trainable));
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

namespace {

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
  const auto look = [&](const auto& values, std::string_view what) {
    for (const proto::ValueInfoProto& value : values) {
      if (!value.has_type() || value.type().has_tensor_type() || !summary.no_tensor.empty()) continue;
      summary.no_tensor =
          fmt::format("the {} '{}' is {}", what, value.name(), "a sequence, an optional value or a map");
    }
  };
  look(model.graph().input(), "input");
  look(model.graph().output(), "output");
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
