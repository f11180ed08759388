#include "federated/plan/layout_metadata.h"

#include <vector>

#include "engine/base/json.h"
#include "engine/graph/variable_name.h"

namespace rivulet {

std::map<std::string, std::string> LayoutMetadata(const Plan& plan) {
  if (plan.external()) return {};
  std::map<std::string, std::string> metadata = {{"rivulet.layout", "rivulet"}};
  std::map<std::string, std::vector<int64_t>> axes;
  for (const auto& node : plan.model().graph.nodes()) {
    if (node->type() != "VarHandleOp") continue;
    const auto* order = node->FindAttr<std::vector<int64_t>>("_onnx_perm");
    if (order != nullptr) axes[std::string(VariableName(*node))] = *order;
  }
  if (!axes.empty()) metadata["rivulet.axes"] = Json(axes).Dump();
  return metadata;
}

}  // namespace rivulet
