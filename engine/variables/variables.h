// Variables of a model under construction: a VarHandleOp, its read, and an assignment of the initial value under the
// target `init`; sharing and reuse by name.
#pragma once

#include <source_location>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/graph/scope.h"
#include "engine/variables/initializers.h"

namespace rivulet {

inline constexpr char kInitTarget[] = "init";       // NoOp that runs after every variable has its initial value
inline constexpr char kSegmentAttr[] = "_segment";  // attribute of a VarHandleOp: the variable's segment

struct VariableOptions {
  DType dtype = DType::kFloat32;
  std::string segment = "trainable";  // trainable, shared, local, frozen
  // kCreate: an existing name is an error. kReuse: a missing name is an error. kReuseOrCreate: either is accepted; an
  // existing variable must have the same dtype, shape and segment. Tied weights are one variable read twice.
  enum class Sharing { kCreate, kReuse, kReuseOrCreate } sharing = Sharing::kCreate;
  AttrMap more = {};  // further attributes of the handle ("_…")
};

// Returns the value of the variable "<scope>/<name>" at this point of the graph. Its nodes are "<scope>/<name>" (the
// handle), "…/Read", "…/Assign" and the initializer's. Errors are kept in the scope: ALREADY_EXISTS, NOT_FOUND (names
// the nearest), INVALID_ARGUMENT.
Output Variable(const Scope& scope, std::string_view name, const Shape& shape, const Initializer& initializer,
                const VariableOptions& options = {}, std::source_location where = std::source_location::current());

// Returns the handle of the variable with this full name ("dense/kernel"). NOT_FOUND names the nearest.
StatusOr<Output> FindVariable(const Graph& graph, std::string_view name);

}  // namespace rivulet
