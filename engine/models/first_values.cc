#include "engine/models/first_values.h"

#include <algorithm>

#include "engine/graph/scope.h"
#include "engine/graph/variable_name.h"
#include "engine/variables/variables.h"

namespace rivulet {

Status SetFirstValues(ModelDef& model, const std::vector<std::pair<std::string, Tensor>>& values) {
  const Scope scope = Scope(model.graph).SubScope("first_values");
  std::vector<Node*> assignments;
  for (const auto& [name, value] : values) {
    RIVULET_ASSIGN_OR_RETURN(const Output handle, FindVariable(model.graph, name));
    assignments.push_back(scope.AddNode("AssignVariableOp", {handle, scope.Const(value, name + "/value")},
                                        {{"dtype", value.dtype()}}, name));
    RIVULET_RETURN_IF_ERROR(scope.status());
  }
  Node* init = model.graph.Find(model.init_target);
  if (init == nullptr)
    return NotFound("the graph has no node '{}' that gives variables their first values", model.init_target);
  for (Node* node : model.graph.TopologicalOrder({&init, 1})) {
    if (node->type() != "AssignVariableOp" || node->input(0).node->type() != "VarHandleOp") continue;
    const std::string variable(VariableName(*node->input(0).node));
    if (std::ranges::find(values, variable, &std::pair<std::string, Tensor>::first) == values.end())
      assignments.push_back(node);
  }
  const std::string target = scope.prefix() + kInitTarget;
  RIVULET_RETURN_IF_ERROR(model.graph.AddNode({target, "NoOp", {}, std::move(assignments)}).status());
  model.init_target = target;
  return absl::OkStatus();
}

}  // namespace rivulet
