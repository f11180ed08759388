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

// What each client keeps from task to task: as many numbers as it has parameters.
struct StateVector {
  std::string name;        // NAME of "state/NAME"
  bool from_base = false;  // begins as the base model's parameters; else as zeros
  bool operator==(const StateVector&) const = default;
};

// The flat variables of one plan beyond those that every plan has.
struct FlatNames {
  int slots = 0;                    // "slots/0", …
  int scalars = 0;                  // "scalars/0", …
  std::vector<std::string> update;  // NAME of "update/NAME"
  std::vector<StateVector> state;
  std::vector<std::string> broadcast;  // NAME of "broadcast/NAME": what a task brings beside its model
  bool other_grads = false;            // "other_grads": a pass differentiates by a second instance of the model
  std::vector<std::string> numbers;    // NAME of "numbers/NAME": what a task brings in numbers (Task::numbers)
  // NAME of "measured/NAME": what a pass has reported as NAME, from its end graph on.
  std::vector<std::string> measured;
  std::vector<std::string> declared;  // NAME of "declared/NAME": what graphs write and an update declares
};

inline constexpr std::string_view kStatePrefix = "state/", kBroadcastPrefix = "broadcast/", kUpdatePrefix = "update/",
                                  kNumbersPrefix = "numbers/", kSlotPrefix = "slots/", kMeasuredPrefix = "measured/",
                                  kDeclaredPrefix = "declared/";

// What a flat variable is by its name ("params", "slots/1", "update/dc"): the float32 elements of its segment with
// padding, or a float64 scalar ("round", "steps", "scalars/0", "numbers/mu", "declared/cluster"). NOT_FOUND: no such
// flat variable for a plan of these names and this layout.
StatusOr<TensorSpec> FlatSpec(std::string_view name, const ModelLayout& layout, const FlatNames& names);

// Whether it holds values of what is trained alone, beside a task's params and base: what a client keeps, a rule
// remembers or the server sends, any of which the model may be run over.
bool IsModelVector(std::string_view flat);
// Whether it is a scalar, if it is a flat variable.
bool IsScalar(std::string_view flat);
// Whether graphs may only read it: what the task began with is other tasks' too.
bool OnlyRead(std::string_view flat);

}  // namespace rivulet
