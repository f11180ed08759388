// The local rule of a pass: the change of `params` by the gradients `grads`, as two graphs over flat variables
// (README.md has the names).
#pragma once

#include <functional>
#include <string>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "federated/plan/flat_scope.h"
#include "federated/scenario/scenario.h"
#include "federated/weights/layout.h"

namespace rivulet {

struct LocalRule {
  Graph begin, step;
  int slots = 0;    // flat buffers as large as `params`
  int scalars = 0;  // float64 numbers
};

// What an algorithm's own gradient remembers from step to step of a task: "slots/0" and "scalars/0" onwards, which
// begin as zeros and are its own to write. The optimiser's come after them.
struct OwnMemory {
  int slots = 0;    // flat buffers
  int scalars = 0;  // float64 numbers
};

// What the optimiser takes for the gradient instead of f.grads().
using LocalGradient = std::function<Output(FlatScope& f)>;

// The rule that client.optimizer and client.schedule ask for, for a model of `layout`, over the flat vector `trains`.
// `gradient` (null: f.grads()) comes before client.optimizer's clipping. INVALID_ARGUMENT: an unknown kind, a setting
// out of its range.
StatusOr<LocalRule> MakeLocalRule(const ClientConfig& client, const ModelLayout& layout,
                                  const LocalGradient& gradient = nullptr, std::string_view trains = "params",
                                  OwnMemory own = {});

}  // namespace rivulet
