// Description of nodes that run functions of the graph's library: If, Case, While and calls, with and without state. It
// gives the functions that a node runs and the inputs that become their arguments.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/function.h"
#include "engine/graph/graph.h"

namespace rivulet {

struct FunctionCall {
  enum class Kind { kCall, kIf, kCase, kWhile };
  Kind kind = Kind::kCall;
  size_t first_argument = 0;       // number of inputs before the arguments, which choose the branch: 1 for If and Case
  std::vector<std::string> roles;  // the attribute of each function: "f"; "then_branch", "else_branch"; "cond", "body"
  std::vector<std::string> functions;  // names, one per role
};

// Returns true if FunctionCall describes this op.
bool RunsFunctions(std::string_view op);
// `attrs` are resolved; `op` runs functions.
FunctionCall DescribeFunctionCall(std::string_view op, const AttrMap& attrs);

// Returns the functions, in order. NOT_FOUND names the role and the function that `find` lacks.
using FunctionLookup = std::function<const Function*(std::string_view name)>;
StatusOr<std::vector<const Function*>> FindFunctions(const FunctionCall& call, const FunctionLookup& find);
FunctionLookup FunctionsOf(const Graph& graph);  // `graph` must outlive it

// The truth value of a condition: a scalar that is not zero, or another tensor with elements. nullopt for types that
// cannot be conditions.
std::optional<bool> TruthOf(DType dtype, const Shape& shape, const std::byte* data);
inline std::optional<bool> TruthOf(const Tensor& value) { return TruthOf(value.dtype(), value.shape(), value.data()); }
// The branch that a Case runs: the last one if `index` is out of range.
inline size_t BranchOf(int32_t index, size_t branches) {
  return index < 0 || static_cast<size_t>(index) >= branches ? branches - 1 : static_cast<size_t>(index);
}

// The index of the argument that `result` returns unchanged, directly or through Identity; -1 otherwise.
int PassedArgument(Output result);

// A variable's handle: VarHandleOp, or a resource argument of a function; looks through Identity. nullptr otherwise.
const Node* HandleOf(Output resource);
// The type of the variable of this handle (a node from HandleOf); for an argument, its attribute "_handle_dtype".
// kInvalid if unknown.
DType HandleDType(const Node& handle);

// Side effects of a call, including those of nested calls.
struct FunctionEffects {
  bool draws = false;               // random numbers of the run's stream
  bool effects = false;             // changes a variable, prints, or has another effect
  std::vector<bool> reads, writes;  // by argument: for the variable of the handle
};
FunctionEffects EffectsOf(const Function& function);
// For a node that runs functions: over all of them; `reads` and `writes` by input of the node.
FunctionEffects EffectsOfCall(std::string_view op, const AttrMap& attrs, size_t inputs, const FunctionLookup& find);

// Returns true if the op is stateful and draws from the run's stream.
bool DrawsFromStream(const OpDef& op);
// Numbers for random draws, by node id: the node's position among the random ops, or among the nodes that run
// functions, in order of creation; -1 for all others. The attribute "_random_index" gives a node's position before its
// graph was rewritten; "_random_of" names the node whose draws this one repeats.
std::vector<int> RandomIndices(const Graph& graph);
// Returns true if a stateful op only reads state, or makes a handle: it can be removed if unused.
bool HasNoEffect(const OpDef& op);

// Known facts about an argument at a call.
struct KnownArgument {
  TensorSpec spec;  // for a handle: kResource, and its variable's shape
  const Tensor* value = nullptr;
  DType variable = DType::kInvalid;  // for a handle: its variable's type, if known
};
// A copy of the body whose arguments have these shapes, with every shape inferred again; arguments with known values
// become constants. Names are kept. INVALID_ARGUMENT: an argument of another type or shape than the function's, or an
// error of the body's shape functions.
StatusOr<Graph> SpecializeBody(const Function& function, std::span<const KnownArgument> arguments);

// Shapes of the results for such arguments, as far as they are known while a graph is built.
StatusOr<std::vector<Shape>> InferFunction(const Function& function, std::span<const KnownArgument> arguments);

}  // namespace rivulet
