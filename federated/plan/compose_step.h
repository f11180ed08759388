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

// Errors of ComposeForward. INVALID_ARGUMENT: a loss that is not a scalar. UNIMPLEMENTED: an op without gradient
// between the loss and a trained variable.
StatusOr<ComposedStep> ComposeStep(const Plan& plan, const LocalPass& pass);

// The first half of a step that protects single examples: it assigns to `grads` the sum of the examples' gradients,
// each clipped to `clip`, over a batch of exactly `rows`. The placeholder kPresentRows (example_noise.h) excludes
// padding. Errors as ComputeClippedGradients and ComposeForward.
StatusOr<ComposedStep> ComposeClippedSum(const Plan& plan, const LocalPass& pass, int64_t rows, double clip);
// The second half: the pass's step graph alone.
StatusOr<ComposedStep> ComposeRule(const LocalPass& pass);

// Compiles every step of `plan` at its batch size as clients will, to find errors before clients meet them. Errors are
// CompileProgram's, with the name of the step.
Status CheckSteps(const Plan& plan);

}  // namespace rivulet
