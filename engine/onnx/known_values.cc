#include "engine/onnx/known_values.h"

#include <unordered_set>

#include "engine/graph/op.h"
#include "engine/onnx/run.h"

namespace rivulet::onnx {

const Node* KnownValues::Unknown(Output output, std::set<std::string>* placeholders) const {
  const Node* unknown = nullptr;
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> stack = {output.node};
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    if (!seen.insert(node).second) continue;
    const bool placeholder = node->type() == "Placeholder";
    if (placeholder || node->op().stateful) {
      if (unknown == nullptr) unknown = node;
      if (placeholder && placeholders != nullptr) placeholders->insert(node->name());
      if (placeholders == nullptr) return unknown;
    }
    for (const Output& input : node->inputs()) stack.push_back(input.node);
  }
  return unknown;
}

bool KnownValues::Knows(Output output) const { return output && Unknown(output, nullptr) == nullptr; }

StatusOr<Tensor> KnownValues::Value(Output output) {
  if (!output) return InvalidArgument("there is no such tensor");
  if (output.node->type() == "Const") return output.node->attr<Tensor>("value");
  const std::pair<const Node*, int> key(output.node, output.port);
  if (const auto found = values_.find(key); found != values_.end()) return found->second;
  if (const Node* unknown = Unknown(output, &needed_))
    return FailedPrecondition("it depends on {} '{}', which is known only when the graph runs",
                              unknown->type() == "Placeholder" ? "the input" : unknown->type(), unknown->name());
  RIVULET_ASSIGN_OR_RETURN(std::vector<Tensor> values, RunOnce(graph_, {}, {output.name()}, {}, {}, {size_t{1} << 28}));
  values_.emplace(key, values[0]);
  return values[0];
}

}  // namespace rivulet::onnx
