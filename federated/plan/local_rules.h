// The local algorithm of a plan: three graphs over flat variables (README.md has the names). A local rule is what
// happens to `params` once `grads` are known.
#pragma once

#include <string>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "federated/scenario/scenario.h"
#include "federated/weights/layout.h"

namespace rivulet {

// The node of each graph that its run is for.
inline constexpr char kRunTarget[] = "run";

struct LocalRule {
  Graph init, step, final;
  int slots = 0;  // flat buffers as large as `params`
};

// The rule that client.optimizer asks for, for a model of `layout`. INVALID_ARGUMENT: an unknown kind.
StatusOr<LocalRule> MakeLocalRule(const OptimizerConfig& optimizer, const ModelLayout& layout);

// The elements of a flat variable by its name in a plan ("params", "slots/1", "update/shared_delta"): those of its
// segment with padding. NOT_FOUND: no such flat variable for a plan of so many slots and this layout.
StatusOr<int64_t> FlatElements(std::string_view name, const ModelLayout& layout, int slots);

}  // namespace rivulet
