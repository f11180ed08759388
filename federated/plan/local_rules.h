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
  int slots = 0;    // flat buffers as large as `params`
  int scalars = 0;  // float64 numbers
};

// The rule that client.optimizer and client.schedule ask for, for a model of `layout`. INVALID_ARGUMENT: an unknown
// kind, a setting out of its range.
StatusOr<LocalRule> MakeLocalRule(const ClientConfig& client, const ModelLayout& layout);

// What a flat variable is by its name in a plan ("params", "slots/1", "update/shared_delta"): the float32 elements of
// its segment with padding, or a float64 scalar ("round", "scalars/0"). NOT_FOUND: no such flat variable for a plan of
// so many slots and scalars and this layout.
StatusOr<TensorSpec> FlatSpec(std::string_view name, const ModelLayout& layout, int slots, int scalars);

}  // namespace rivulet
