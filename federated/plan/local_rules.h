// The local rule of a pass: the change of `params` by the gradients `grads`, as two graphs over flat variables
// (README.md lists the names).
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

// Memory of an algorithm's own gradient between steps of a task: "slots/0" and "scalars/0" onwards, which start as
// zeros and which it writes. The optimiser's follow.
struct OwnMemory {
  int slots = 0;    // flat buffers
  int scalars = 0;  // float64 numbers
};

// Computes the optimiser's gradient in place of f.grads().
using LocalGradient = std::function<Output(FlatScope& f)>;

// The rule of client.optimizer and client.schedule for a model of `layout`, over the flat vector `trains`. `gradient`
// (null: f.grads()) is evaluated before client.optimizer's clipping. INVALID_ARGUMENT: an unknown kind, a setting out
// of range.
StatusOr<LocalRule> MakeLocalRule(const ClientConfig& client, const ModelLayout& layout,
                                  const LocalGradient& gradient = nullptr, std::string_view trains = "params",
                                  OwnMemory own = {});

}  // namespace rivulet
