// Adapters of training.cu.
#include "engine/kernels/cuda/training.h"

#include "engine/kernels/cuda/launch.h"

namespace rivulet::gpu {
namespace {

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
  return Launching(
      [kernel = std::move(kernel), arguments, gradient](const GpuContext& c) {
        OptimizerArguments a = arguments;
        for (size_t i = 0; i < c.variables.size(); ++i) a.variables[i] = VariableOf<void>(c, i);
        for (size_t i = 0, scalar = 0; i < c.inputs.size(); ++i)
          if (i != gradient) a.scalars[scalar++] = InputOf<void>(c, i);
        a.gradient = InputOf<void>(c, gradient);
        return Put(c, kernel, a);
      },
      10.0 * static_cast<double>(arguments.count));
}

// Momentum's comes between its scalars, all others' last.
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
