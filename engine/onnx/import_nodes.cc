// Nodes: the converter of each operator, functions of the model's own, and gradients.
#include "engine/base/nearest.h"
#include "engine/gradients/gradients.h"
#include "engine/onnx/importer.h"

namespace rivulet::onnx {

// The rows of an embedding, of which the one that stands for padding gives its table no gradient.
Output Importer::WithoutPaddingRow(const proto::NodeProto& node, const Frame& frame, const Scope& scope,
                                   Output rows) const {
  const auto padding = places_.padding_rows().find(node.input(0));
  if (padding == places_.padding_rows().end()) return rows;
  const Builder b(scope);
  const Output indices = b.Cast(frame.values.at(node.input(1)), DType::kInt64);
  const int rank = ShapeOf(rows).rank() - ShapeOf(indices).rank();
  Output is_padding = b.Equal(indices, b.Int(padding->second));
  for (int i = 0; i < rank; ++i) is_padding = b.ExpandDims(is_padding, ShapeOf(indices).rank() + i);
  return b.Select(is_padding, b.Op("StopGradient", {rows}), rows);
}

// A model's own functions take precedence over operators: a model may redefine an operator of its opset.
Status Importer::Convert(const proto::NodeProto& node, Frame& frame, const Scope& scope) {
  const std::string domain = DomainOf(node.domain());
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
    Output value = context.outputs()[static_cast<size_t>(i)];
    if (!value) return Unimplemented("its output {} ('{}')", i, node.output(i));
    if (frame.attributes == nullptr && node.op_type() == "Gather") value = WithoutPaddingRow(node, frame, scope, value);
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
  const auto opset = frame.opsets.find(DomainOf(original.domain()));
  const std::string where = fmt::format("{} '{}' (opset {})", original.op_type(), original.name(),
                                        opset == frame.opsets.end() ? 0 : opset->second);
  if (++nodes_ > options_.limits.nodes)
    return ResourceExhausted("the model has more than {} nodes", options_.limits.nodes);
  if (original.op_type() == "If" && DomainOf(original.domain()).empty())
    return Annotate(Branch(original, frame, scope), where);
  if (original.op_type().find("Sequence") != std::string::npos && DomainOf(original.domain()).empty()) {
    bool done = false;
    RIVULET_RETURN_IF_ERROR(Annotate(Sequence(original, frame, scope, done), where));
    if (done) return absl::OkStatus();
  }
  for (const auto& attr : original.attribute())
    if (attr.has_g() || attr.graphs_size() > 0)
      return Unimplemented("{}: it has a subgraph; control flow is not supported", where);
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

// A function's body replaces its call, with a separate frame for names. So the imported graph is flat, and shapes that
// depend on the caller's values are known in the body.
Status Importer::Call(const proto::FunctionProto& function, const proto::NodeProto& call, Frame& frame,
                      const Scope& scope) {
  if (frame.depth >= options_.limits.call_depth)
    return InvalidArgument("functions call each other more than {} deep", options_.limits.call_depth);
  std::map<std::string, proto::AttributeProto> attributes;
  for (const auto& attr : function.attribute_proto()) attributes[attr.name()] = attr;
  for (const auto& attr : call.attribute()) attributes[attr.name()] = attr;
  Frame inner{{}, {}, {}, &attributes, frame.depth + 1};
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

}  // namespace rivulet::onnx
