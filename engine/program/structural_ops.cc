#include "engine/program/structural_ops.h"

#include <algorithm>
#include <array>
#include <utility>

namespace rivulet {

StructuralOp StructuralKind(std::string_view op) {
  static constexpr std::array<std::pair<std::string_view, StructuralOp>, 16> kTable = {{
      {"Const", StructuralOp::kConst},
      {"Placeholder", StructuralOp::kPlaceholder},
      {"_Arg", StructuralOp::kPlaceholder},
      {"VarHandleOp", StructuralOp::kVariable},
      {"NoOp", StructuralOp::kNoOp},
      {"Identity", StructuralOp::kView},
      {"Reshape", StructuralOp::kView},
      {"Squeeze", StructuralOp::kView},
      {"ExpandDims", StructuralOp::kView},
      {"StopGradient", StructuralOp::kView},
      {"PreventGradient", StructuralOp::kView},
      {"PlaceholderWithDefault", StructuralOp::kView},
      {"EnsureShape", StructuralOp::kView},
      {"Snapshot", StructuralOp::kView},
      {"ReadVariableOp", StructuralOp::kRead},
      {"AssignVariableOp", StructuralOp::kAssign},
  }};
  const auto found = std::find_if(kTable.begin(), kTable.end(), [&](const auto& entry) { return entry.first == op; });
  return found == kTable.end() ? StructuralOp::kNone : found->second;
}

bool OnlyReadsVariables(std::string_view op) {
  return op == "ReadVariableOp" || op == "ResourceGather" || op == "VariableShape" || op == "VarIsInitializedOp" ||
         op == "Identity";
}

}  // namespace rivulet
