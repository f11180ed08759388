#include "dataflow/distributed/sync_replicas.h"

#include <vector>

#include "engine/optimizers/apply_gradients.h"

namespace rivulet {

StatusOr<SyncReplicasNodes> ApplyGradientsInSync(const Scope& scope, const OptimizerSpec& spec,
                                                 std::span<const Output> variables, std::span<const Output> gradients,
                                                 Output global_step, const SyncReplicas& replicas) {
  if (replicas.to_aggregate < 1 || replicas.to_aggregate > replicas.replicas)
    return InvalidArgument("{} of {} workers' gradients make no step; aggregate from 1 to as many as there are workers",
                           replicas.to_aggregate, replicas.replicas);
  if (variables.size() != gradients.size())
    return InvalidArgument("there are {} variables and {} gradients", variables.size(), gradients.size());
  if (!global_step || global_step.node->type() != "VarHandleOp" ||
      global_step.node->attr<DType>("dtype") != DType::kInt64 || global_step.shape() != Shape{})
    return InvalidArgument("the global step must be the handle of an int64 scalar variable");
  const Scope sync = scope.SubScope("sync_replicas");
  const Scope central = sync.ColocateWith(global_step.node);
  const AttrMap step_type = {{"dtype", DType::kInt64}};
  const auto scalar = [](const Scope& at, int32_t value) { return at.Const(Tensor::Scalar<int32_t>(value)); };
  SyncReplicasNodes nodes;

  // A worker's side.
  const Output queue = central.Op("FIFOQueueV2", {},
                                  {{"component_types", std::vector<DType>{DType::kInt64}},
                                   {"shapes", std::vector<Shape>{{}}},
                                   {"capacity", int64_t{-1}}},
                                  "token_queue");
  const Output token =
      central.Op("QueueDequeueV2", {queue}, {{"component_types", std::vector<DType>{DType::kInt64}}}, "token");
  RIVULET_RETURN_IF_ERROR(scope.status());
  const Output current =
      central.WithControl({token.node}).Op("ReadVariableOp", {global_step}, step_type, "global_step_behind");
  const Output local_step = sync.Placeholder("local_step", DType::kInt64, Shape{});
  std::vector<Node*> applied, started;
  std::vector<Output> means;
  const Output step_now = central.Op("ReadVariableOp", {global_step}, step_type, "global_step_now");
  for (size_t i = 0; i < variables.size(); ++i) {
    const DType dtype = gradients[i].dtype();
    const Scope at_variable = sync.ColocateWith(variables[i].node);
    const Output accumulator =
        at_variable.Op("ResourceConditionalAccumulator", {}, {{"dtype", dtype}, {"shape", variables[i].shape()}},
                       fmt::format("accumulator_{}", i));
    applied.push_back(at_variable.AddNode("ResourceAccumulatorApplyGradient", {accumulator, local_step, gradients[i]}));
    started.push_back(at_variable.AddNode("ResourceAccumulatorSetGlobalStep", {accumulator, step_now}));
    means.push_back(at_variable.Op("ResourceAccumulatorTakeGradient",
                                   {accumulator, scalar(at_variable, replicas.to_aggregate)}, {{"dtype", dtype}},
                                   fmt::format("mean_{}", i)));
  }
  RIVULET_RETURN_IF_ERROR(scope.status());
  nodes.apply = sync.WithControl(applied).AddNode("NoOp", {}, {}, "apply")->name();
  nodes.token = token.name();
  nodes.global_step = current.name();
  nodes.local_step = local_step.name();

  // The chief's side: tokens of the new step are there only when all variables have been moved.
  const auto give_tokens = [&](std::vector<Node*> before, std::string_view name) {
    const Scope after = central.WithControl(std::move(before));
    const Output step = after.Op("ReadVariableOp", {global_step}, step_type);
    const Output count = after.Const(Tensor::Of<int32_t>({1}, {replicas.replicas}));
    Node* const given = central.AddNode("QueueEnqueueManyV2", {queue, after.Op("Fill", {count, step})});
    return scope.status().ok() ? sync.WithControl({given}).AddNode("NoOp", {}, {}, name) : nullptr;
  };
  RIVULET_ASSIGN_OR_RETURN(Node* const moved, ApplyGradients(sync, spec, variables, means));
  Node* const counted = central.WithControl({moved}).AddNode(
      "AssignAddVariableOp", {global_step, central.Const(Tensor::Scalar<int64_t>(1))}, step_type);
  RIVULET_RETURN_IF_ERROR(scope.status());
  Node* const update = give_tokens({counted}, "update");
  Node* const start = give_tokens(started, "start");
  Node* const close = central.AddNode("QueueCloseV2", {queue}, {}, "close");
  RIVULET_RETURN_IF_ERROR(scope.status());
  nodes.update = update->name();
  nodes.start = start->name();
  nodes.close = close->name();
  return nodes;
}

}  // namespace rivulet
