#include "federated/local_rules/rule_writer.h"

#include "engine/gradients/gradients.h"
#include "engine/graph/variable_name.h"
#include "federated/local_rules/rule_names.h"
#include "federated/plan/number.h"

namespace rivulet {

RuleWriter::RuleWriter(const Graph& rule, const std::map<std::string, double>& numbers,
                       const std::map<std::string, std::string>& slots, FlatScope& f)
    : rule_(rule), numbers_(numbers), slots_(slots), f_(f) {}

void RuleWriter::AddToLoss(const Node& number) {
  Write(rule_.Find(number.name()));
  const Output added = written_[&number].output;
  const Output params = reads_["params"];
  if (!added || !params) return;  // the scope has the error
  const Output one = Number(f_.scope(), 1);
  StatusOr<std::vector<Output>> slope =
      ComputeGradients(f_.scope(), std::vector<Output>{added}, std::vector<Output>{one}, std::vector<Output>{params});
  if (!slope.ok()) return f_.scope().Fail(slope.status());
  // Clears the padding: the derivative of a sum over clean vectors may still be nonzero there.
  reads_["grads"] = f_.Add(f_.grads(), Clean({(*slope)[0], Padding::kAny}));
}

Output RuleWriter::Vector(const Node& vector) {
  Write(rule_.Find(vector.name()));
  const Output output = Clean(written_[&vector]);
  const Output params = f_.Handle("params");
  if (!output || !params || (output.dtype() == DType::kFloat32 && output.shape() == params.shape())) return output;
  f_.scope().Fail(InvalidArgument("the rule's '{}' is {}{}, and must be a vector as long as params, {}", vector.name(),
                                  Name(output.dtype()), output.shape().ToString(), params.shape().ToString()));
  return {};
}

Output RuleWriter::Gradients() {
  Output& grads = reads_["grads"];
  if (!grads) grads = f_.grads();
  return grads;
}

void RuleWriter::Assign(const Node& target) {
  // Reads everything before it writes anything.
  std::vector<std::pair<std::string, Output>> values;
  for (const Node* assign : target.control_inputs()) {
    values.emplace_back(Flat(*assign->input(0).node), Vector(*assign->input(1).node));
  }
  for (const auto& [flat, value] : values) f_.Assign(flat, value);
}

void RuleWriter::Write(Node* target) {
  for (Node* node : rule_.TopologicalOrder({&target, 1})) {
    if (!written_.contains(node)) written_[node] = Make(*node);
  }
}

RuleWriter::Written RuleWriter::Make(const Node& node) {
  const Scope& scope = f_.scope();
  if (node.type() == "VarHandleOp") return {};  // each reader handles it
  if (node.type() == "ReadVariableOp") return Read(node);
  if (node.type() == "Placeholder") return {Number(scope, numbers_.at(kRateInput))};
  if (node.type() == "Const") {
    if (!node.name().starts_with(kSettingPrefix)) return {scope.Const(node.attr<Tensor>("value"), "number")};
    return {Number(scope, numbers_.at(node.name().substr(std::string_view(kSettingPrefix).size())))};
  }
  std::vector<Output> inputs;
  std::vector<Padding> paddings;
  for (const Output& input : node.inputs()) {
    const Written& from = written_[input.node];
    inputs.push_back(node.type() == "Sum" ? Clean(from) : from.output);
    paddings.push_back(from.padding);
  }
  AttrMap attrs;
  if (node.type() == "Cast") attrs["DstT"] = node.attr<DType>("DstT");
  return {scope.Op(node.type(), inputs, std::move(attrs)), FindRuleOp(node.type())->padding(paddings)};
}

RuleWriter::Written RuleWriter::Read(const Node& node) {
  const std::string flat = Flat(*node.input(0).node);
  Output& read = reads_[flat];
  if (!read) read = f_.Read(flat);
  return {read, node.outputs()[0].dtype == DType::kFloat32 ? Padding::kZero : Padding::kFinite};
}

std::string RuleWriter::Flat(const Node& handle) const {
  std::string name(VariableName(handle));
  const auto slot = slots_.find(name);
  return slot == slots_.end() ? name : slot->second;
}

Output RuleWriter::Clean(const Written& written) {
  const Output output = written.output;
  if (!output || written.padding == Padding::kZero || output.dtype() != DType::kFloat32 || output.shape() == Shape{}) {
    return output;
  }
  const Output mask = Mask();
  if (!mask) return output;
  return f_.scope().Op("SelectV2", {mask, output, f_.scope().Const(0.0f, "zero")});
}

// True for a tensor's elements, false for padding. Built from stretches, without a constant as large as the model.
Output RuleWriter::Mask() {
  if (mask_) return mask_;
  const Scope& scope = f_.scope();
  std::vector<Output> stretches;
  const auto stretch = [&](size_t bytes, bool elements) {
    if (bytes == 0) return;
    const auto count = static_cast<int64_t>(bytes / sizeof(float));
    stretches.push_back(
        scope.Op("Fill", {scope.Const(Tensor::Of<int64_t>({1}, {count})), scope.Const(Tensor::Scalar(elements))}));
  };
  size_t begin = 0, end = 0;  // of adjacent elements
  for (const Slice& slice : f_.layout().slices()) {
    if (!IsTrained(slice.segment)) continue;
    if (slice.offset > end) {
      stretch(end - begin, true);
      stretch(slice.offset - end, false);
      begin = slice.offset;
    }
    end = slice.offset + static_cast<size_t>(slice.elements) * sizeof(float);
  }
  stretch(end - begin, true);
  stretch(f_.layout().trained_bytes() - end, false);
  if (stretches.size() < 2) return {};
  stretches.push_back(scope.Const(Tensor::Scalar<int32_t>(0), "axis"));
  mask_ = scope.Op("ConcatV2", stretches);
  return mask_;
}

}  // namespace rivulet
