#include "engine/onnx/known_values.h"

#include <unordered_set>

#include "engine/base/join.h"
#include "engine/graph/op.h"
#include "engine/onnx/run.h"

namespace rivulet::onnx {

// Back to constants and to what is known element by element. The first that is neither is the one that is told: in the
// order in which the model made its nodes.
KnownValues::Cut KnownValues::CutBefore(Output output) {
  Cut cut;
  std::unordered_set<const Node*> seen;
  std::set<std::pair<const Node*, int>> kept;
  std::vector<Output> stack = {output};
  while (!stack.empty()) {
    const Output at = stack.back();
    stack.pop_back();
    const Node* const node = at.node;
    if (node->type() == "Const") continue;
    if (symbols_.NumbersOf(at)) {
      if (kept.emplace(node, at.port).second) cut.known.push_back(at);
      continue;
    }
    if (!seen.insert(node).second) continue;
    const bool about_shapes = node->type() == "Shape" || node->type() == "Size" || node->type() == "Rank";
    if (about_shapes || node->type() == "Placeholder" || node->op().stateful) {
      if (cut.unknown == nullptr || node->id() < cut.unknown->id()) cut.unknown = node;
      continue;
    }
    for (const Output& input : node->inputs()) stack.push_back(input);
  }
  if (cut.unknown == nullptr || cut.unknown->inputs().empty()) return cut;
  const Output of = cut.unknown->input(0);
  std::vector<std::string> open;
  if (const std::vector<Dimension>* found = symbols_.SizesOf(of)) {
    const std::vector<Dimension> sizes = *found;
    for (size_t axis = 0; axis < sizes.size(); ++axis)
      if (!sizes[axis].IsNumber()) open.push_back(fmt::format("axis {} ({})", axis, symbols_.Describe(sizes[axis])));
  }
  cut.open = fmt::format("{} of '{}' {}", open.empty() ? "the rank" : Join(open, ", "), of.node->name(),
                         of.shape().ToString());
  return cut;
}

Status KnownValues::WhyUnknown(const Cut& cut) {
  const Node& node = *cut.unknown;
  if (node.type() == "Placeholder") {
    needed_.insert(node.name());
    return FailedPrecondition("it depends on the values of the input '{}', which are known only when the graph runs{}",
                              node.name(), remedies_.value);
  }
  if (node.op().stateful)
    return FailedPrecondition("it depends on {} '{}', which is known only when the graph runs", node.type(),
                              node.name());
  return FailedPrecondition("it depends on {}, which is open{}", cut.open, remedies_.size);
}

Status KnownValues::Unknown(const Dimension& element) {
  std::vector<int> ids;
  element.AddSymbols(ids);
  for (const int id : ids) {
    const Symbol& symbol = symbols_.symbol(id);
    if (!symbol.fed) continue;
    const Cut cut = CutBefore(symbol.output);
    if (cut.unknown != nullptr) return WhyUnknown(cut);
  }
  return FailedPrecondition("it is {}, which is open{}", symbols_.Describe(element), remedies_.size);
}

bool KnownValues::Knows(Output output) {
  return output && (symbols_.NumbersOf(output).has_value() || CutBefore(output).unknown == nullptr);
}

StatusOr<Tensor> KnownValues::Value(Output output) {
  if (!output) return InvalidArgument("there is no such tensor");
  if (output.node->type() == "Const") return output.node->attr<Tensor>("value");
  if (std::optional<Tensor> numbers = symbols_.NumbersOf(output)) return *std::move(numbers);
  const std::pair<const Node*, int> key(output.node, output.port);
  if (const auto found = values_.find(key); found != values_.end()) return found->second;
  const Cut cut = CutBefore(output);
  if (cut.unknown != nullptr) return WhyUnknown(cut);
  NamedTensors feeds;
  for (const Output& known : cut.known)
    if (std::optional<Tensor> numbers = symbols_.NumbersOf(known))
      feeds.emplace_back(known.name(), *std::move(numbers));
  RIVULET_ASSIGN_OR_RETURN(std::vector<Tensor> values,
                           RunOnce(graph_, feeds, {output.name()}, {}, {}, {size_t{1} << 28}));
  values_.emplace(key, values[0]);
  return values[0];
}

}  // namespace rivulet::onnx
