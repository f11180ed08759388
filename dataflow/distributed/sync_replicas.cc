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

  // Nodes for workers.
  const AttrMap token_type = {{"component_types", std::vector<DType>{DType::kInt64}}};
  std::vector<Output> queues;
  for (int worker = 0; worker < replicas.replicas; ++worker) {
    queues.push_back(central.Op("FIFOQueueV2", {},
                                {{"component_types", std::vector<DType>{DType::kInt64}},
                                 {"shapes", std::vector<Shape>{{}}},
                                 {"capacity", int64_t{1}}},
                                fmt::format("token_queue_{}", worker)));
    const Output token = central.Op("QueueDequeueV2", {queues.back()}, token_type, fmt::format("token_{}", worker));
    RIVULET_RETURN_IF_ERROR(scope.status());
    nodes.tokens.push_back(token.name());
    nodes.global_steps.push_back(
        central.WithControl({token.node})
            .Op("ReadVariableOp", {global_step}, step_type, fmt::format("global_step_behind_{}", worker))
            .name());
  }
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
  nodes.local_step = local_step.name();

  // Nodes for the chief: tokens of the new step exist only after all variables were updated. A queue with an untaken
  // token gets no further one, so the chief never waits for a lost worker, and its tokens do not accumulate.
  const auto give_tokens = [&](const std::vector<Node*>& before, std::string_view name) -> Node* {
    const Scope after = central.WithControl(before);
    const Output step = after.Op("ReadVariableOp", {global_step}, step_type);
    const Output one = central.Const(Tensor::Scalar<int64_t>(1));
    std::vector<Node*> given;
    for (const Output& queue : queues) {
      const Output held = after.Op("Cast", {after.Op("QueueSizeV2", {queue})}, {{"DstT", DType::kInt64}});
      const Output end = central.Op("AddV2", {step, central.Op("Sub", {one, held})});
      given.push_back(central.AddNode("QueueEnqueueManyV2", {queue, central.Op("Range", {step, end, one})}));
    }
    return scope.status().ok() ? sync.WithControl(given).AddNode("NoOp", {}, {}, name) : nullptr;
  };
  RIVULET_ASSIGN_OR_RETURN(Node* const moved, ApplyGradients(sync, spec, variables, means));
  Node* const counted = central.WithControl({moved}).AddNode(
      "AssignAddVariableOp", {global_step, central.Const(Tensor::Scalar<int64_t>(1))}, step_type);
  RIVULET_RETURN_IF_ERROR(scope.status());
  Node* const update = give_tokens({counted}, "update");
  Node* const start = give_tokens(started, "start");
  std::vector<Node*> closed;
  for (const Output& queue : queues) closed.push_back(central.AddNode("QueueCloseV2", {queue}));
  RIVULET_RETURN_IF_ERROR(scope.status());
  Node* const close = sync.WithControl(closed).AddNode("NoOp", {}, {}, "close");
  RIVULET_RETURN_IF_ERROR(scope.status());
  nodes.update = update->name();
  nodes.start = start->name();
  nodes.close = close->name();
  return nodes;
}

}  // namespace rivulet
