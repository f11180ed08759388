// The vocabulary of plans: the allowed names of variables in the graphs of a pass (README.md has the table). Clients
// allocate the variables with these names and bind nothing else, so a plan cannot reach foreign memory.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/tensor/tensor.h"
#include "federated/weights/layout.h"

namespace rivulet {

// A vector that each client keeps from task to task, with as many numbers as it has parameters.
struct StateVector {
  std::string name;        // NAME of "state/NAME"
  bool from_base = false;  // initially the base model's parameters; else zeros
  bool operator==(const StateVector&) const = default;
};

// The flat variables of one plan besides those that every plan has.
struct FlatNames {
  int slots = 0;                    // "slots/0", …
  int scalars = 0;                  // "scalars/0", …
  std::vector<std::string> update;  // NAME of "update/NAME"
  std::vector<StateVector> state;
  std::vector<std::string> broadcast;  // NAME of "broadcast/NAME": sent with a task besides its model
  bool other_grads = false;            // "other_grads": a pass also differentiates a second instance of the model
  std::vector<std::string> numbers;    // NAME of "numbers/NAME": numbers of a task (Task::numbers)
  // NAME of "measured/NAME": the pass's report NAME, from its end graph on.
  std::vector<std::string> measured;
  std::vector<std::string> declared;  // NAME of "declared/NAME": written by graphs, declared by an update
};

inline constexpr std::string_view kStatePrefix = "state/", kBroadcastPrefix = "broadcast/", kUpdatePrefix = "update/",
                                  kNumbersPrefix = "numbers/", kSlotPrefix = "slots/", kMeasuredPrefix = "measured/",
                                  kDeclaredPrefix = "declared/";

// The spec of a flat variable by its name ("params", "slots/1", "update/dc"): the float32 elements of its segment with
// padding, or a float64 scalar ("round", "steps", "scalars/0", "numbers/mu", "declared/cluster"). NOT_FOUND: no such
// flat variable for these names and this layout.
StatusOr<TensorSpec> FlatSpec(std::string_view name, const ModelLayout& layout, const FlatNames& names);

// Returns true for a vector over the trained variables other than a task's params and base: a client's state, a rule's
// memory or a server vector. The model may be run with any of them.
bool IsModelVector(std::string_view flat);
// Returns true if a flat variable of this name is a scalar.
bool IsScalar(std::string_view flat);
// Returns true if graphs may only read it, because other tasks share the task's initial values.
bool OnlyRead(std::string_view flat);

}  // namespace rivulet
