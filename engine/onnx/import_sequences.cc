// Branches whose condition is known, and sequences, which are lists of tensors. Neither is a value of the graph.
#include "engine/onnx/importer.h"
#include "engine/onnx/tensor.h"

namespace rivulet::onnx {

// The branch that a condition chooses which is known now, as exporters write them for sizes that may be 1.
Status Importer::Branch(const proto::NodeProto& node, Frame& frame, const Scope& scope) {
  const auto condition = node.input_size() == 1 ? frame.values.find(node.input(0)) : frame.values.end();
  if (condition == frame.values.end() || !condition->second) return InvalidArgument("its condition is not there");
  StatusOr<Tensor> known = known_.Value(condition->second);
  if (!known.ok())
    return Unimplemented("it has subgraphs, and its condition is unknown when the model is imported: {}",
                         Message(known.status()));
  if (known->dtype() != DType::kBool || known->elements() != 1) return InvalidArgument("its condition is no bool");
  const bool then = known->flat<bool>()[0];
  const proto::GraphProto* graph = nullptr;
  for (const auto& attr : node.attribute())
    if (attr.name() == (then ? "then_branch" : "else_branch") && attr.has_g()) graph = &attr.g();
  if (graph == nullptr || graph->output_size() != node.output_size())
    return InvalidArgument("it has no branch of {} outputs", node.output_size());
  // Names are the model's own, each once, so that the branch stands in the frame around it.
  for (const proto::TensorProto& initializer : graph->initializer()) {
    StatusOr<Tensor> value = TensorFromOnnx(initializer, {options_.folder});
    if (!value.ok()) return Annotate(value.status(), fmt::format("the initializer '{}'", initializer.name()));
    RIVULET_RETURN_IF_ERROR(
        Bind(frame, initializer.name(), scope.Const(*std::move(value), GraphName(initializer.name(), "constant"))));
  }
  RIVULET_ASSIGN_OR_RETURN(const auto nodes, InOrder(graph->node()));
  for (const proto::NodeProto* inner : nodes) RIVULET_RETURN_IF_ERROR(AddNode(*inner, frame, scope));
  for (int i = 0; i < node.output_size(); ++i) {
    const auto value = frame.values.find(graph->output(i).name());
    if (value == frame.values.end()) return InvalidArgument("its branch makes no value '{}'", graph->output(i).name());
    if (!node.output(i).empty()) RIVULET_RETURN_IF_ERROR(Bind(frame, node.output(i), value->second));
  }
  return scope.status();
}

// Sequences of known length are lists of tensors here, not values of the graph. `done`: the operator is one of these.
Status Importer::Sequence(const proto::NodeProto& node, Frame& frame, const Scope& scope, bool& done) {
  const std::string& op = node.op_type();
  const Builder b(scope);
  const auto tensor = [&](int i) -> StatusOr<Output> {
    const auto found = i < node.input_size() ? frame.values.find(node.input(i)) : frame.values.end();
    if (found == frame.values.end() || !found->second) return InvalidArgument("its input {} is no tensor", i);
    return found->second;
  };
  const auto number = [&](std::string_view name, int64_t otherwise) {
    for (const auto& attr : node.attribute())
      if (attr.name() == name) return attr.i();
    return otherwise;
  };
  if (node.output_size() != 1) return absl::OkStatus();
  done = true;
  if (op == "SequenceConstruct") {
    std::vector<Output>& made = frame.sequences[node.output(0)];
    for (int i = 0; i < node.input_size(); ++i) {
      RIVULET_ASSIGN_OR_RETURN(const Output element, tensor(i));
      made.push_back(element);
    }
    return absl::OkStatus();
  }
  if (op == "SplitToSequence") {
    RIVULET_ASSIGN_OR_RETURN(const Output x, tensor(0));
    const Shape& shape = ShapeOf(x);
    const int64_t wanted = number("axis", 0);
    if (!shape.known_rank() || wanted < -shape.rank() || wanted >= shape.rank())
      return InvalidArgument("axis {} of {}", wanted, shape.ToString());
    const auto axis = static_cast<int>(wanted < 0 ? wanted + shape.rank() : wanted);
    const int64_t size = shape.dim(axis);
    const bool each = node.input_size() < 2 || node.input(1).empty();
    std::vector<int64_t> sizes;
    if (!each) {
      RIVULET_ASSIGN_OR_RETURN(const Output split, tensor(1));
      RIVULET_ASSIGN_OR_RETURN(const Tensor value, known_.Value(b.Cast(split, DType::kInt64)));
      sizes.assign(value.flat<int64_t>().begin(), value.flat<int64_t>().end());
      if (value.shape().rank() == 0) {
        const int64_t part = sizes[0];
        if (size == kUnknownDim || part < 1)
          return FailedPrecondition("the size of axis {} of {} must be known", axis, shape.ToString());
        sizes.assign(static_cast<size_t>(size / part), part);
        if (size % part != 0) sizes.push_back(size % part);
      }
    } else if (size != kUnknownDim && size <= options_.limits.nodes) {
      sizes.assign(static_cast<size_t>(size), 1);
    } else {
      return FailedPrecondition("the size of axis {} of {} must be known", axis, shape.ToString());
    }
    std::vector<Output>& made = frame.sequences[node.output(0)];
    int64_t begin = 0;
    for (const int64_t part : sizes) {
      if (part < 0 || static_cast<int>(made.size()) > options_.limits.nodes)
        return InvalidArgument("it splits {} into parts of {}", shape.ToString(), part);
      made.push_back(each && number("keepdims", 1) == 0 ? b.At(x, axis, begin) : b.Slice(x, axis, begin, begin + part));
      begin += part;
    }
    return b.status();
  }
  const auto list = node.input_size() > 0 ? frame.sequences.find(node.input(0)) : frame.sequences.end();
  if (list == frame.sequences.end()) {
    done = false;
    return absl::OkStatus();
  }
  const std::vector<Output> elements = list->second;
  if (op == "SequenceLength") return Bind(frame, node.output(0), b.Int(static_cast<int64_t>(elements.size())));
  if (op == "ConcatFromSequence") {
    if (elements.empty()) return InvalidArgument("the sequence is empty");
    const bool stacks = number("new_axis", 0) != 0;
    const int rank = ShapeOf(elements[0]).rank() + (stacks ? 1 : 0);
    const int64_t axis = number("axis", 0), at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank) return InvalidArgument("axis {} of {} axes", axis, rank);
    const Output joined = stacks ? b.Stack(elements, static_cast<int>(at)) : b.Concat(elements, static_cast<int>(at));
    return b.status().ok() ? Bind(frame, node.output(0), joined) : b.status();
  }
  if (op != "SequenceAt") {
    done = false;
    return absl::OkStatus();
  }
  RIVULET_ASSIGN_OR_RETURN(const Output position, tensor(1));
  RIVULET_ASSIGN_OR_RETURN(const Tensor value, known_.Value(b.Cast(position, DType::kInt64)));
  const auto length = static_cast<int64_t>(elements.size());
  const int64_t asked = value.elements() == 1 ? value.flat<int64_t>()[0] : length,
                at = asked < 0 ? asked + length : asked;
  if (at < 0 || at >= length) return InvalidArgument("element {} of a sequence of {}", asked, length);
  return Bind(frame, node.output(0), elements[static_cast<size_t>(at)]);
}

}  // namespace rivulet::onnx
