// Adapters of training.cu.
#include "engine/kernels/cuda/training.h"

#include "engine/kernels/cuda/element_adapter.h"
#include "engine/kernels/cuda/launch.h"

namespace rivulet::gpu {
namespace {

using Kind = ElementOperand::Kind;

// Rules of training.cu that may end a chain, as steps with the same roundings in the same order. nullopt for others.
std::optional<ElementProgram> ElementsOfUpdate(const NodeView& node) {
  const std::string_view op = node.node.type();
  const TensorSpec& variable = node.variables[0];
  ElementProgram p{.dtype = variable.dtype, .count = variable.shape.elements()};
  if (p.dtype != DType::kFloat32 && p.dtype != DType::kFloat64) return std::nullopt;
  p.variables = static_cast<int>(node.variables.size());
  for (const TensorSpec& input : node.inputs) {
    const auto source = ElementPlaceOf(input, variable.shape, p.dtype);
    if (!source) return std::nullopt;
    p.inputs.push_back(*source);
  }
  const auto add = [&](ElementCode code, ElementOperand x, ElementOperand y) {
    p.steps.push_back(StepOf(code, {x, y}));
    return ElementOperand{Kind::kStep, static_cast<int>(p.steps.size()) - 1};
  };
  const auto keep = [&](int number, ElementOperand value) {
    p.targets.push_back({value.index, Kind::kVariable, number});
  };
  const ElementOperand weights{Kind::kVariable, 0}, sum{Kind::kVariable, 1};
  const auto input = [](int i) { return ElementOperand{Kind::kInput, i}; };
  if (op == "AssignAddVariableOp" || op == "AssignSubVariableOp") {
    keep(0, add(op == "AssignAddVariableOp" ? ElementCode::kAddV2 : ElementCode::kSub, weights, input(0)));
  } else if (op == "ResourceApplyGradientDescent") {
    keep(0, add(ElementCode::kSub, weights, add(ElementCode::kTimes, input(0), input(1))));
  } else if (op == "ResourceApplyMomentum") {
    const ElementOperand rate = input(0), gradient = input(1), momentum = input(2);
    const ElementOperand moved = add(ElementCode::kAddV2, add(ElementCode::kTimes, momentum, sum), gradient);
    const bool* const nesterov = node.node.FindAttr<bool>("use_nesterov");
    const ElementOperand direction = nesterov != nullptr && *nesterov
                                         ? add(ElementCode::kAddV2, gradient, add(ElementCode::kTimes, momentum, moved))
                                         : moved;
    keep(0, add(ElementCode::kSub, weights, add(ElementCode::kTimes, rate, direction)));
    keep(1, moved);
  } else {
    return std::nullopt;
  }
  return p;
}

// One input is as long as the variables; the others are scalars.
StatusOr<Prepared> PrepareUpdate(const NodeView& node, size_t gradient, std::string kernel) {
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (i != gradient && node.inputs[i].shape.rank() != 0)
      return InvalidArgument("input {} must be a scalar, not {}", i, node.inputs[i].shape.ToString());
  const TensorSpec& change = node.inputs[gradient];
  for (const TensorSpec& variable : node.variables)
    if (variable != change)
      return InvalidArgument("a variable of {}{} cannot be updated with {}{}", Name(variable.dtype),
                             variable.shape.ToString(), Name(change.dtype), change.shape.ToString());
  OptimizerArguments arguments{};
  RIVULET_ASSIGN_OR_RETURN(arguments.count, CountOf(change.shape.elements()));
  for (const char* name : {"update_slots", "use_nesterov"})
    if (const bool* flag = node.node.FindAttr<bool>(name)) arguments.flag = *flag ? 1 : 0;
  Prepared prepared = Launching(
      [kernel = std::move(kernel), arguments, gradient](const GpuContext& c) {
        OptimizerArguments a = arguments;
        for (size_t i = 0; i < c.variables.size(); ++i) a.variables[i] = VariableOf<void>(c, i);
        for (size_t i = 0, scalar = 0; i < c.inputs.size(); ++i)
          if (i != gradient) a.scalars[scalar++] = InputOf<void>(c, i);
        a.gradient = InputOf<void>(c, gradient);
        return Put(c, kernel, a);
      },
      10.0 * static_cast<double>(arguments.count));
  return WithElements(std::move(prepared), ElementsOfUpdate(node));
}

// Momentum's gradient is between its scalars, all others' is last.
StatusOr<Prepared> PrepareOptimizer(const NodeView& node, std::string kernel) {
  const size_t gradient = node.node.type() == "ResourceApplyMomentum" ? 1 : node.inputs.size() - 1;
  return PrepareUpdate(node, gradient, std::move(kernel));
}

#define RIVULET_GPU_OPTIMIZER_OF(op, Rule, T) \
  RIVULET_KERNEL(op, Device::kCuda, T,        \
                 [](const NodeView& node, const KernelPolicy&) { return PrepareOptimizer(node, #Rule "_" #T); });
#define RIVULET_GPU_OPTIMIZER(op, Rule) \
  RIVULET_GPU_OPTIMIZER_OF(op, Rule, float) RIVULET_GPU_OPTIMIZER_OF(op, Rule, double)
RIVULET_GPU_OPTIMIZERS(RIVULET_GPU_OPTIMIZER)

#define RIVULET_GPU_ASSIGN(op, Rule)          \
  RIVULET_GPU_OPTIMIZER_OF(op, Rule, float)   \
  RIVULET_GPU_OPTIMIZER_OF(op, Rule, double)  \
  RIVULET_GPU_OPTIMIZER_OF(op, Rule, int32_t) \
  RIVULET_GPU_OPTIMIZER_OF(op, Rule, int64_t)
RIVULET_GPU_ASSIGN("AssignAddVariableOp", AssignAdd)
RIVULET_GPU_ASSIGN("AssignSubVariableOp", AssignSub)

}  // namespace
}  // namespace rivulet::gpu
