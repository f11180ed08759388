// A model made ready to be trained in a session.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/gradients/gradients.h"
#include "engine/graph/scope.h"
#include "engine/models/model_def.h"
#include "engine/optimizers/apply_gradients.h"
#include "engine/variables/variables.h"

namespace rivulet::testing {

// Adds to the model's graph one step of `optimizer` that moves its trainable variables down `loss` (the training loss
// unless it is named). Gives the target that runs it; `train_updates` are run beside it by who wants them, and
// `init_target` gives the optimiser's slots their first values, too.
inline StatusOr<std::string> AddTrainingStep(ModelDef& model, const OptimizerSpec& optimizer,
                                             std::string_view loss = "") {
  std::vector<Output> handles;
  for (const ModelVariable& variable : model.variables) {
    if (variable.segment != "trainable") continue;
    RIVULET_ASSIGN_OR_RETURN(const Output handle, FindVariable(model.graph, variable.name));
    handles.push_back(handle);
  }
  RIVULET_ASSIGN_OR_RETURN(const Output down, model.graph.FindOutput(loss.empty() ? model.train_loss : loss));
  RIVULET_ASSIGN_OR_RETURN(const auto gradients, ComputeGradients(model.graph, down, handles));
  RIVULET_ASSIGN_OR_RETURN(const Node* step, ApplyGradients(Scope(model.graph), optimizer, handles, gradients));
  return step->name();
}

}  // namespace rivulet::testing
