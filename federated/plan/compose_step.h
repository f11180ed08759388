// The graph of one step of a pass, as clients compile it: forward pass, gradients, the model's own updates and the
// local rule.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "federated/plan/pass.h"
#include "federated/plan/plan.h"

namespace rivulet {

struct ComposedStep {
  Graph graph;
  std::vector<std::string> targets;
};

// The errors of ComposeForward. INVALID_ARGUMENT: a loss that is no scalar. UNIMPLEMENTED: an op without gradient
// between the loss and a trained variable.
StatusOr<ComposedStep> ComposeStep(const Plan& plan, const LocalPass& pass);

// The first half of a step that protects single examples: it assigns to `grads` the sum of the examples' gradients,
// each clipped to `clip`, over a batch of exactly `rows`, whose placeholder kPresentRows (example_noise.h) leaves out
// padding. Errors as ComputeClippedGradients and ComposeForward.
StatusOr<ComposedStep> ComposeClippedSum(const Plan& plan, const LocalPass& pass, int64_t rows, double clip);
// The second half: the pass's step graph alone.
StatusOr<ComposedStep> ComposeRule(const LocalPass& pass);

// Compiles every step of `plan` on this machine, at its batch size, as its clients will: what they would meet there is
// an error here. CompileProgram's errors, each saying which step it was.
Status CheckSteps(const Plan& plan);

}  // namespace rivulet
