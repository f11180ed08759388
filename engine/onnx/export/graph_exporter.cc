#include "engine/onnx/export/graph_exporter.h"

#include <algorithm>

#include "engine/graph/inference.h"
#include "engine/graph/op.h"
#include "engine/graph/variable_name.h"
#include "engine/onnx/arrange.h"

namespace rivulet::onnx {
namespace {

bool PassesThrough(const Node& node) { return node.type() == "Identity" || node.type() == "StopGradient"; }

}  // namespace

const BatchShapes& Exporter::shapes() {
  if (!shapes_) shapes_.emplace(graph_, placeholders_, outputs_);
  return *shapes_;
}

// Values that follow from constants alone are exported as constants. ONNX's readers fold little, and sizes computed by
// gradients and layers would be nodes in every run.
Status Exporter::FindNodes() {
  std::vector<Node*> roots;
  for (const std::string& name : options_.outputs) {
    RIVULET_ASSIGN_OR_RETURN(const Output output, graph_.FindOutput(name));
    if (output.dtype() == DType::kResource) return InvalidArgument("'{}' is a variable's handle, not a value", name);
    outputs_.push_back(output);
    roots.push_back(output.node);
    ++used_[{output.node, output.port}];
  }
  if (roots.empty()) return InvalidArgument("a model has at least one output");
  int variables = 0;
  for (const auto& node : graph_.nodes())
    if (node->type() == "VarHandleOp") variable_order_.emplace(VariableName(*node), variables++);
  for (const Node* node : graph_.TopologicalOrder(roots)) {
    order_.push_back(node);
    for (const Output& input : node->inputs()) ++used_[{input.node, input.port}];
    const bool constant = node->type() == "Const" ||
                          (!node->inputs().empty() && !node->op().stateful &&
                           std::ranges::all_of(node->inputs(), [&](const Output& in) { return IsConstant(in.node); }));
    if (constant) constant_.insert(node);
    if (node->type() == "Placeholder") placeholders_.push_back(node);
  }
  std::ranges::sort(placeholders_, {}, [](const Node* node) { return node->id(); });
  return absl::OkStatus();
}

// Outputs come last, since only then is it clear which of their values exist, in which order of axes, and under which
// names.
Status Exporter::Run() {
  RIVULET_RETURN_IF_ERROR(FindNodes());
  for (const Node* node : placeholders_) {
    RIVULET_RETURN_IF_ERROR(OnnxFromDType(node->outputs()[0].dtype).status());
    const Value name = writer_.NewName(node->name());
    slots_[{node, 0}].plain = name;
    described_[name] = {const_cast<Node*>(node)->output()};
    Remember(name);
  }
  for (const auto& [variable, order] : variable_order_) {
    // Names of weights are theirs alone; Initializer asks for them again.
    if (graph_.Find(variable) != nullptr && graph_.Find(variable)->type() == "Placeholder")
      return InvalidArgument("'{}' is the name of a variable and of an input", variable);
  }
  for (const Node* node : order_) {
    if (IsConstant(node) || node->type() == "Placeholder" || node->type() == "VarHandleOp" ||
        node->type() == "ReadVariableOp")
      continue;
    if (node->outputs().empty()) continue;  // runs for its effect
    RIVULET_RETURN_IF_ERROR(Annotate(ExportNode(*node), DescribeNode(*node)));
  }
  current_ = nullptr;
  first_node_ = writer_.nodes();
  std::vector<Value> finals;
  std::set<Value> given;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    Value value = Plain(outputs_[i]);
    RIVULET_RETURN_IF_ERROR(status_);
    const std::string& wanted = options_.outputs[i];
    const bool shared = !given.insert(value).second;
    if (shared || !writer_.IsMade(value)) {  // an input, a weight, another output: it gets a separate name
      if (value == wanted)
        return InvalidArgument("the output '{}' is an input of the graph, so there is nothing to export", wanted);
      value = writer_.Emit(wanted, "Identity", {value}, 1, {})[0];
    }
    if (value != wanted) {
      if (writer_.IsMade(wanted) && !given.contains(wanted)) {
        const Value aside = writer_.NewName(wanted + "_inner");
        writer_.Rename(wanted, aside, 0);
        if (const auto entry = described_.extract(wanted)) described_[aside] = entry.mapped();
      }
      writer_.Rename(value, wanted, 0);
      described_.erase(value);
    }
    described_[wanted] = {outputs_[i]};
    finals.push_back(wanted);
    given.insert(wanted);
  }
  writer_.Prune(finals);
  return status_;
}

Status Exporter::ExportNode(const Node& node) {
  const ExportFunction function = ExporterRegistry::Global().Find(node.type());
  if (function == nullptr) {
    return Unimplemented(
        "ONNX has no operator for {} that could be written. Export the tensors before it (--output), or build the same "
        "of other ops; docs/reference/onnx.md lists those that have one",
        node.type());
  }
  current_ = &node;
  first_node_ = writer_.nodes();
  ExportContext context(*this, node);
  RIVULET_RETURN_IF_ERROR(function(context));
  return status_;
}

const Node* Exporter::VariableOf(Output x) const {
  while (PassesThrough(*x.node)) x = x.node->input(0);
  if (x.node->type() != "ReadVariableOp") return nullptr;
  Output handle = x.node->input(0);
  while (PassesThrough(*handle.node)) handle = handle.node->input(0);
  return handle.node->type() == "VarHandleOp" ? handle.node : nullptr;
}

StatusOr<Tensor> Exporter::WeightOf(const Node& handle) const {
  const std::string name(VariableName(handle));
  const auto found = options_.weights.find(name);
  if (found == options_.weights.end()) return NotFound("the variable '{}' has no value among the weights", name);
  const Tensor& value = found->second;
  if (value.dtype() != VariableDType(handle) || !Shape::Compatible(value.shape(), handle.attr<Shape>("shape")))
    return InvalidArgument("the weights have {}{} for the variable '{}', which is {}{}", Name(value.dtype()),
                           value.shape().ToString(), name, Name(VariableDType(handle)),
                           handle.attr<Shape>("shape").ToString());
  return value;
}

// A value that was just made gets the tensor's name, so that the model can be compared with the graph tensor by tensor;
// one that is merely handed on keeps the name it has.
void Exporter::Set(Output x, Order order, const Value& value) {
  if (!status_.ok()) return;
  Value name = value;
  const bool fresh = [&] {
    for (size_t i = first_node_; i < writer_.nodes(); ++i)
      for (const std::string& output : writer_.node(i).output())
        if (output == value) return !remembered_.contains(value);
    return false;
  }();
  if (fresh) {
    const std::string tensor = x.name();
    name = writer_.NewName(order == Order::kPlain           ? tensor
                           : order == Order::kChannelsFirst ? tensor + "/channels_first"
                                                            : tensor + "/int64");
    writer_.Rename(value, name, first_node_);
    if (order != Order::kInt64) described_[name] = {x, order == Order::kChannelsFirst};
  }
  Remember(name);
  Slot& slot = At(x);
  (order == Order::kPlain ? slot.plain : order == Order::kChannelsFirst ? slot.channels_first : slot.int64s) = name;
}

void Exporter::Forward(Output to, Output from) {
  // Weights are created at their first use, in the requested layout.
  if (VariableOf(to) != nullptr) return;
  if (IsConstant(from.node) || VariableOf(from) != nullptr) Plain(from);
  At(to) = At(from);
}

// A tensor may exist in several forms: in the graph's layout, channels first, or as wider integers. Each is created on
// request and kept, so that a chain of ONNX's image operators needs no transposes in between.
Value Exporter::Plain(Output x) {
  if (!status_.ok()) return "";
  Slot& slot = At(x);
  if (!slot.plain.empty()) return slot.plain;
  if (IsConstant(x.node)) {
    const StatusOr<Tensor> value = Known(x);
    if (!value.ok()) {
      Fail(Annotate(value.status(), fmt::format("the constant '{}'", x.name())));
      return "";
    }
    slot.plain = writer_.Constant(*value, x.name());
  } else if (VariableOf(x) != nullptr) {
    std::vector<int64_t> perm(static_cast<size_t>(x.shape().rank()));
    for (size_t axis = 0; axis < perm.size(); ++axis) perm[axis] = static_cast<int64_t>(axis);
    slot.plain = Arranged(x, perm, {}, {});
  } else if (!slot.channels_first.empty()) {
    slot.plain = Emitted("Transpose", {slot.channels_first}, {{"perm", ToChannelsLast(x.shape().rank())}});
  } else if (!slot.int64s.empty()) {
    slot.plain = Emitted("Cast", {slot.int64s}, {{"to", x.dtype()}});
  } else {
    Fail(Unimplemented("the output {} of {}, of which ONNX has no form", x.port, DescribeNode(*x.node)));
  }
  Remember(slot.plain);
  return slot.plain;
}

Value Exporter::ChannelsFirst(Output x) {
  if (!status_.ok()) return "";
  if (!At(x).channels_first.empty()) return At(x).channels_first;
  const int rank = x.shape().rank();
  if (IsConstant(x.node) || VariableOf(x) != nullptr) {
    // Weights are stored as their first user wants them.
    const Value value = Arranged(x, ToChannelsFirst(rank), {}, {});
    Remember(value);
    return At(x).channels_first = value;
  }
  const Value plain = Plain(x);
  const Value value = Emitted("Transpose", {plain}, {{"perm", ToChannelsFirst(rank)}});
  Remember(value);
  return At(x).channels_first = value;
}

bool Exporter::LiesChannelsFirst(Output x) const {
  const auto found = slots_.find({x.node, x.port});
  return found != slots_.end() && !found->second.channels_first.empty() && found->second.plain.empty();
}

// ONNX takes sizes and indices as int64, where our graphs mostly have int32; for a constant the widening costs nothing.
Value Exporter::Int64s(Output x) {
  if (!status_.ok() || x.dtype() == DType::kInt64) return Plain(x);
  if (!At(x).int64s.empty()) return At(x).int64s;
  Value value;
  if (const StatusOr<Tensor> known = Known(x); known.ok() && known->dtype() == DType::kInt32) {
    Tensor wide(DType::kInt64, known->shape());
    for (size_t i = 0; i < wide.flat<int64_t>().size(); ++i) wide.flat<int64_t>()[i] = known->flat<int32_t>()[i];
    value = writer_.Constant(wide, x.name());
  } else {
    value = Emitted("Cast", {Plain(x)}, {{"to", DType::kInt64}});
  }
  Remember(value);
  return At(x).int64s = value;
}

// A weight is one initializer in the layout of its first use, as most have only one. Further layouts are computed by
// nodes.
Value Exporter::Arranged(Output x, const std::vector<int64_t>& perm, const std::vector<int64_t>& dims,
                         const std::vector<int64_t>& split) {
  if (!status_.ok()) return "";
  const bool constant = IsConstant(x.node);
  const Node* handle = constant ? nullptr : VariableOf(x);
  if (constant || handle != nullptr) {
    const StatusOr<Tensor> value = constant ? Known(x) : WeightOf(*handle);
    const StatusOr<Tensor> arranged = value.ok() ? ArrangeTensor(*value, perm, dims, split) : value.status();
    if (!arranged.ok()) {
      Fail(arranged.status());
      return "";
    }
    if (constant) return writer_.Constant(*arranged, x.name());
    const std::string name(VariableName(*handle));
    const auto known = weights_.find(name);
    if (known == weights_.end()) {
      const Value stored = writer_.Initializer(*arranged, name, variable_order_[name]);
      weights_.emplace(name, Weight{stored, split, perm, dims});
      Remember(stored);
      return stored;
    }
    if (known->second.perm == perm && known->second.dims == dims && known->second.split == split)
      return known->second.value;
    // It is stored in another order: taken back to the graph's, and arranged when the model runs.
    const Weight& other = known->second;
    const std::vector<int64_t> inverse = InversePermutation(other.perm);
    std::vector<int64_t> split_dims = other.split, stored_dims;
    if (split_dims.empty()) split_dims.assign(value->shape().dims().begin(), value->shape().dims().end());
    for (int64_t axis : other.perm) stored_dims.push_back(split_dims[static_cast<size_t>(axis)]);
    Value v = other.value;
    const auto reshaped = [&](const Value& from, const std::vector<int64_t>& to) {
      return Emitted(
          "Reshape",
          {from, Const(Tensor::Of<int64_t>(Shape{static_cast<int64_t>(to.size())}, std::span<const int64_t>(to)))}, {});
    };
    if (!other.dims.empty()) v = reshaped(v, stored_dims);
    v = Emitted("Transpose", {v}, {{"perm", inverse}});
    const auto& shape = value->shape();
    if (!other.split.empty()) v = reshaped(v, {shape.dims().begin(), shape.dims().end()});
    if (!split.empty()) v = reshaped(v, split);
    if (!std::ranges::is_sorted(perm)) v = Emitted("Transpose", {v}, {{"perm", perm}});
    if (!dims.empty()) v = reshaped(v, dims);
    return v;
  }
  Value v = Plain(x);
  const auto shaped = [&](const std::vector<int64_t>& to) {
    v = Emitted("Reshape",
                {v, Const(Tensor::Of<int64_t>(Shape{static_cast<int64_t>(to.size())}, std::span<const int64_t>(to)))},
                {});
  };
  if (!split.empty()) shaped(split);
  if (!std::ranges::is_sorted(perm)) v = Emitted("Transpose", {v}, {{"perm", perm}});
  if (!dims.empty()) shaped(dims);
  return v;
}

StatusOr<Tensor> Exporter::Known(Output x) {
  if (IsConstant(x.node)) return known_.Value(x);
  std::optional<Tensor> value = ConstantValue(x, [](Output output) -> const Shape& { return output.shape(); });
  if (value) return *std::move(value);
  return known_.Value(x);
}

Value Exporter::Const(const Tensor& value) {
  if (!status_.ok()) return "";
  const Value name = writer_.Constant(value, current_ == nullptr ? "output" : current_->name());
  Remember(name);
  return name;
}

Value Exporter::Emitted(std::string_view op, std::vector<Value> inputs, const AttrMap& attrs) {
  return EmittedAll(op, std::move(inputs), 1, attrs)[0];
}

std::vector<Value> Exporter::EmittedAll(std::string_view op, std::vector<Value> inputs, int outputs,
                                        const AttrMap& attrs) {
  if (!status_.ok()) return std::vector<Value>(static_cast<size_t>(outputs));
  return writer_.Emit(current_ == nullptr ? "output" : current_->name(), op, std::move(inputs), outputs, attrs);
}

bool Exporter::IsUsedOnce(Output x) const {
  const auto found = used_.find({x.node, x.port});
  return found != used_.end() && found->second == 1;
}

}  // namespace rivulet::onnx
