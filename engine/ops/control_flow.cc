// Functional control flow: nodes that run functions of the graph's library. Version-1 graphs (Switch, Merge, Enter, …)
// are raised to these when they are read.
#include <algorithm>

#include "engine/gradients/function_gradients.h"
#include "engine/gradients/while_gradient.h"
#include "engine/graph/function_call.h"
#include "engine/graph/list_shape.h"
#include "engine/graph/op.h"

namespace rivulet {
namespace {

// The functions of a node, each checked against the node's arguments and the types of its results.
class Callees {
 public:
  static StatusOr<Callees> Of(InferenceContext& c, std::string_view op, const std::vector<DType>& results) {
    Callees callees;
    callees.call_ = DescribeFunctionCall(op, c.attrs());
    RIVULET_ASSIGN_OR_RETURN(callees.functions_,
                             FindFunctions(callees.call_, [&](std::string_view name) { return c.FindFunction(name); }));
    for (int i = static_cast<int>(callees.call_.first_argument); i < c.num_inputs(); ++i)
      callees.arguments_.push_back({{c.input_dtype(i), c.input(i)}, c.input_value(i)});
    for (size_t i = 0; i < callees.functions_.size(); ++i) {
      RIVULET_RETURN_IF_ERROR(callees.CheckArguments(i));
      const bool condition = callees.call_.kind == FunctionCall::Kind::kWhile && i == 0;
      if (!condition) RIVULET_RETURN_IF_ERROR(callees.CheckResults(i, results));
    }
    return callees;
  }

  size_t size() const { return functions_.size(); }
  const Function& function(size_t i) const { return *functions_[i]; }
  std::vector<KnownArgument>& arguments() { return arguments_; }
  std::string Describe(size_t i) const { return fmt::format("{} '{}'", call_.roles[i], functions_[i]->name); }
  StatusOr<std::vector<Shape>> Infer(size_t i) const {
    StatusOr<std::vector<Shape>> shapes = InferFunction(*functions_[i], arguments_);
    if (!shapes.ok()) return Annotate(shapes.status(), call_.roles[i]);
    return shapes;
  }

 private:
  Callees() = default;

  Status CheckArguments(size_t at) const {
    const Function& function = *functions_[at];
    if (function.arguments.size() != arguments_.size())
      return InvalidArgument("{} takes {} arguments, but the node gives {}", Describe(at), function.arguments.size(),
                             arguments_.size());
    for (size_t i = 0; i < arguments_.size(); ++i)
      if (function.argument_dtype(i) != arguments_[i].spec.dtype)
        return InvalidArgument("{} takes {} as argument {} ('{}'), but the node gives {}", Describe(at),
                               Name(function.argument_dtype(i)), i, function.arguments[i]->name(),
                               Name(arguments_[i].spec.dtype));
    return absl::OkStatus();
  }

  Status CheckResults(size_t at, const std::vector<DType>& results) const {
    const Function& function = *functions_[at];
    if (function.results.size() != results.size())
      return InvalidArgument("{} gives {} results, but the node has {}", Describe(at), function.results.size(),
                             results.size());
    for (size_t i = 0; i < results.size(); ++i)
      if (function.result_dtype(i) != results[i])
        return InvalidArgument("{} gives {} as result {} ('{}'), but the node has {}", Describe(at),
                               Name(function.result_dtype(i)), i, function.result_names[i], Name(results[i]));
    return absl::OkStatus();
  }

  FunctionCall call_;
  std::vector<const Function*> functions_;
  std::vector<KnownArgument> arguments_;
};

// The common part of both shapes.
Shape Common(const Shape& a, const Shape& b) {
  if (!a.known_rank() || !b.known_rank() || a.rank() != b.rank()) return Shape::UnknownRank();
  Shape common = a;
  for (int axis = 0; axis < a.rank(); ++axis)
    if (a.dim(axis) != b.dim(axis)) common.set_dim(axis, kUnknownDim);
  return common;
}

// The attribute output_shapes, where given: one per output.
StatusOr<const std::vector<Shape>*> OutputShapes(const InferenceContext& c, size_t outputs) {
  const auto& given = c.attr<std::vector<Shape>>("output_shapes");
  if (given.empty()) return nullptr;
  if (given.size() != outputs)
    return InvalidArgument("output_shapes holds {} shapes, but the node has {} outputs", given.size(), outputs);
  return &given;
}

// Sets the outputs, as far as output_shapes allows.
Status SetOutputs(InferenceContext& c, std::vector<Shape> shapes, const std::vector<Shape>* given) {
  for (size_t i = 0; i < shapes.size(); ++i) {
    const DType dtype = c.attr<std::vector<DType>>("Tout")[i];
    if (given != nullptr && dtype != DType::kResource && dtype != DType::kVariant) {
      StatusOr<Shape> merged = Shape::Merge(shapes[i], (*given)[i]);
      if (!merged.ok())
        return InvalidArgument("output_shapes has {} for output {}, which is {}", (*given)[i].ToString(), i,
                               shapes[i].ToString());
      shapes[i] = *std::move(merged);
    }
    c.set_output(static_cast<int>(i), std::move(shapes[i]));
  }
  return absl::OkStatus();
}

Status CallShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Callees callees,
                           Callees::Of(c, "PartitionedCall", c.attr<std::vector<DType>>("Tout")));
  RIVULET_ASSIGN_OR_RETURN(std::vector<Shape> shapes, callees.Infer(0));
  return SetOutputs(c, std::move(shapes), nullptr);
}

// The branch that is certain to run, or -1.
StatusOr<int64_t> KnownBranch(InferenceContext& c, bool is_if, size_t branches) {
  const Tensor* value = c.input_value(0);
  if (is_if) {
    const std::optional<bool> taken = value == nullptr ? std::nullopt : TruthOf(*value);
    return taken ? (*taken ? 0 : 1) : -1;
  }
  if (c.input(0).known_rank() && c.input(0).rank() != 0)
    return InvalidArgument("branch_index must be a scalar, but is {}", c.input(0).ToString());
  return value == nullptr ? -1 : static_cast<int64_t>(BranchOf(value->flat<int32_t>()[0], branches));
}

Status BranchShape(InferenceContext& c, std::string_view op) {
  const auto& types = c.attr<std::vector<DType>>("Tout");
  RIVULET_ASSIGN_OR_RETURN(const Callees callees, Callees::Of(c, op, types));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Shape>* given, OutputShapes(c, types.size()));
  RIVULET_ASSIGN_OR_RETURN(const int64_t known, KnownBranch(c, op == "If", callees.size()));
  std::vector<Shape> common;
  for (size_t branch = 0; branch < callees.size(); ++branch) {
    if (known >= 0 && static_cast<size_t>(known) != branch) continue;
    RIVULET_ASSIGN_OR_RETURN(std::vector<Shape> shapes, callees.Infer(branch));
    if (common.empty()) common = shapes;
    for (size_t i = 0; i < shapes.size(); ++i)
      common[i] = types[i] == DType::kVariant ? CommonList(common[i], shapes[i]) : Common(common[i], shapes[i]);
  }
  return SetOutputs(c, std::move(common), given);
}
Status IfShape(InferenceContext& c) { return BranchShape(c, "If"); }
Status CaseShape(InferenceContext& c) { return BranchShape(c, "Case"); }

// A loop variable keeps its shape, unless output_shapes says of a dimension that it may change.
Status WhileShape(InferenceContext& c) {
  const auto& types = c.attr<std::vector<DType>>("T");
  RIVULET_ASSIGN_OR_RETURN(Callees callees, Callees::Of(c, "While", types));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Shape>* given, OutputShapes(c, types.size()));
  const Function& condition = callees.function(0);
  if (condition.results.size() != 1)
    return InvalidArgument("{} must give one result, the condition, but gives {}", callees.Describe(0),
                           condition.results.size());
  if (condition.result_dtype(0) == DType::kResource || condition.result_dtype(0) == DType::kVariant)
    return InvalidArgument("{} gives {}, which is no condition", callees.Describe(0), Name(condition.result_dtype(0)));
  std::vector<Shape> kept;
  for (size_t i = 0; i < types.size(); ++i) {
    KnownArgument& argument = callees.arguments()[i];
    // Only values that no iteration changes stay known.
    if (PassedArgument(callees.function(1).results[i]) != static_cast<int>(i)) argument.value = nullptr;
    // A list's length may change, and its elements may be known only after the first iteration.
    if (types[i] == DType::kVariant && PassedArgument(callees.function(1).results[i]) != static_cast<int>(i))
      argument.spec.shape = CommonList(argument.spec.shape, Shape::UnknownRank());
    if (given != nullptr && types[i] != DType::kResource && types[i] != DType::kVariant) {
      if (!Shape::Compatible((*given)[i], argument.spec.shape))
        return InvalidArgument("output_shapes has {} for loop variable {} ('{}'), which starts as {}",
                               (*given)[i].ToString(), i, callees.function(1).arguments[i]->name(),
                               argument.spec.shape.ToString());
      argument.spec.shape = Common((*given)[i], argument.spec.shape);
    }
    kept.push_back(argument.spec.shape);
  }
  RIVULET_RETURN_IF_ERROR(callees.Infer(0).status());
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Shape> after, callees.Infer(1));
  bool changed = false;
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] == DType::kVariant) {
      kept[i] = CommonList(kept[i], after[i]);
      continue;
    }
    if (!Shape::Compatible(kept[i], after[i]))
      return InvalidArgument(
          "loop variable {} ('{}') enters an iteration as {} and leaves it as {}; mark its changing dimensions in "
          "output_shapes",
          i, callees.function(1).arguments[i]->name(), kept[i].ToString(), after[i].ToString());
    Shape common = Common(kept[i], after[i]);
    changed = changed || !(common == kept[i]);
    kept[i] = std::move(common);
  }
  for (size_t i = 0; i < types.size(); ++i) {
    // A value derived from a shape that the body changes is unknown.
    const bool passed = PassedArgument(callees.function(1).results[i]) == static_cast<int>(i);
    const bool keeps = passed || !changed || (kept[i].IsFullyKnown() && kept[i].rank() == 0);
    c.set_output(static_cast<int>(i), keeps || types[i] == DType::kVariant ? kept[i]
                                      : given != nullptr                   ? (*given)[i]
                                                                           : Shape::UnknownRank());
  }
  return absl::OkStatus();
}

#define RIVULET_CALL(name)                \
  RIVULET_OP(name)                        \
      .Input("args: Tin")                 \
      .Output("output: Tout")             \
      .Attr("Tin: list(type) >= 0")       \
      .Attr("Tout: list(type) >= 0")      \
      .Attr("f: func")                    \
      .Attr("config: string = ''")        \
      .Attr("config_proto: string = ''")  \
      .Attr("executor_type: string = ''") \
      .Shape(CallShape)                   \
      .Gradient(FunctionCallGradient)

RIVULET_CALL("PartitionedCall").Doc("Runs the function `f`, which has no effect beside its results.");
RIVULET_CALL("StatefulPartitionedCall")
    .Stateful()
    .Doc("Runs the function `f`, which may read and change variables and draw random numbers.");

#define RIVULET_IF(name)                       \
  RIVULET_OP(name)                             \
      .Input("cond: Tcond")                    \
      .Input("input: Tin")                     \
      .Output("output: Tout")                  \
      .Attr("Tcond: type")                     \
      .Attr("Tin: list(type) >= 0")            \
      .Attr("Tout: list(type) >= 0")           \
      .Attr("then_branch: func")               \
      .Attr("else_branch: func")               \
      .Attr("output_shapes: list(shape) = []") \
      .Shape(IfShape)                          \
      .Gradient(FunctionCallGradient)

RIVULET_IF("StatelessIf")
    .Doc(
        "Runs `then_branch` on `input` where `cond` holds, `else_branch` elsewhere; neither has an effect. A scalar "
        "holds where it is not zero, any other tensor where it has elements.");
RIVULET_IF("If").Stateful().Doc(
    "Runs `then_branch` on `input` where `cond` holds, `else_branch` elsewhere. A scalar holds where it is not zero, "
    "any other tensor where it has elements.");

#define RIVULET_CASE(name)                     \
  RIVULET_OP(name)                             \
      .Input("branch_index: int32")            \
      .Input("input: Tin")                     \
      .Output("output: Tout")                  \
      .Attr("Tin: list(type) >= 0")            \
      .Attr("Tout: list(type) >= 0")           \
      .Attr("branches: list(func) >= 1")       \
      .Attr("output_shapes: list(shape) = []") \
      .Shape(CaseShape)                        \
      .Gradient(FunctionCallGradient)

RIVULET_CASE("StatelessCase")
    .Doc(
        "Runs `branches[branch_index]` on `input`, the last branch where there is none of this index; none has an "
        "effect.");
RIVULET_CASE("Case").Stateful().Doc(
    "Runs `branches[branch_index]` on `input`, the last branch where there is none of this index.");

#define RIVULET_WHILE(name)                    \
  RIVULET_OP(name)                             \
      .Input("input: T")                       \
      .Output("output: T")                     \
      .Attr("T: list(type) >= 0")              \
      .Attr("cond: func")                      \
      .Attr("body: func")                      \
      .Attr("output_shapes: list(shape) = []") \
      .Attr("parallel_iterations: int = 10")   \
      .Shape(WhileShape)                       \
      .Gradient(WhileGradient)

RIVULET_WHILE("StatelessWhile")
    .Doc("While `cond` of the loop variables holds they become `body` of them; neither has an effect.");
RIVULET_WHILE("While").Stateful().Doc("While `cond` of the loop variables holds they become `body` of them.");

}  // namespace
}  // namespace rivulet
