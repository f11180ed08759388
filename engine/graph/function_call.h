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
  size_t first_argument = 0;       // inputs before it choose the branch: 1 for If and Case
  std::vector<std::string> roles;  // the attribute that names each: "f"; "then_branch", "else_branch"; "cond", "body"
  std::vector<std::string> functions;  // names, one per role
};

// True for the ops that FunctionCall describes.
bool RunsFunctions(std::string_view op);
// `attrs` are resolved; `op` runs functions.
FunctionCall DescribeFunctionCall(std::string_view op, const AttrMap& attrs);

// The functions, in order. NOT_FOUND names the role and the function that `find` does not give.
using FunctionLookup = std::function<const Function*(std::string_view name)>;
StatusOr<std::vector<const Function*>> FindFunctions(const FunctionCall& call, const FunctionLookup& find);
FunctionLookup FunctionsOf(const Graph& graph);  // `graph` must outlive it

// Whether a condition holds: a scalar that is not zero, or any other tensor that has elements. nullopt for types that
// are no condition.
std::optional<bool> TruthOf(DType dtype, const Shape& shape, const std::byte* data);
inline std::optional<bool> TruthOf(const Tensor& value) { return TruthOf(value.dtype(), value.shape(), value.data()); }
// The branch of a Case that runs: the last one where there is none of this index.
inline size_t BranchOf(int32_t index, size_t branches) {
  return index < 0 || static_cast<size_t>(index) >= branches ? branches - 1 : static_cast<size_t>(index);
}

// The index of the argument that `result` hands back as it is, through Identity or directly; -1 for anything else.
int PassedArgument(Output result);

// A variable's handle: VarHandleOp, or a resource argument of a function; through Identity. nullptr for anything else.
const Node* HandleOf(Output resource);
// The type of the variable whose handle this node (of HandleOf) is; for an argument what its attribute "_handle_dtype"
// says. kInvalid when nothing is known.
DType HandleDType(const Node& handle);

// What a call does beside its results, the functions that it calls in turn included.
struct FunctionEffects {
  bool draws = false;               // random numbers of the run's stream
  bool effects = false;             // changes a variable, prints, or has another effect
  std::vector<bool> reads, writes;  // by argument: of the variable whose handle it is
};
FunctionEffects EffectsOf(const Function& function);
// Of a node that runs functions: over all of them; `reads` and `writes` by input of the node.
FunctionEffects EffectsOfCall(std::string_view op, const AttrMap& attrs, size_t inputs, const FunctionLookup& find);

// True for the stateful ops that draw from the run's stream.
bool DrawsFromStream(const OpDef& op);
// Where each node of a graph draws, by id: its place among the random ops, or among the nodes that run functions, in
// order of creation; -1 for all others. The attribute "_random_index" says where a node stood before its graph was
// rewritten, "_random_of" names the node whose draws this one repeats.
std::vector<int> RandomIndices(const Graph& graph);
// True for a stateful op whose state is only read, or that makes a handle: leaving it out changes nothing else.
bool HasNoEffect(const OpDef& op);

// What is known of an argument where a function is called.
struct KnownArgument {
  TensorSpec spec;  // of a handle: kResource, and its variable's shape
  const Tensor* value = nullptr;
  DType variable = DType::kInvalid;  // of a handle: its variable's type, where it is known
};
// A copy of the body whose arguments have these shapes, with every shape inferred again; arguments of a known value are
// constants there. Names are kept. INVALID_ARGUMENT: an argument of another type or shape than the function takes, or
// what the body's shape functions say.
StatusOr<Graph> SpecializeBody(const Function& function, std::span<const KnownArgument> arguments);

// Shapes of the results for such arguments, as far as they can be told while a graph is built.
StatusOr<std::vector<Shape>> InferFunction(const Function& function, std::span<const KnownArgument> arguments);

}  // namespace rivulet
