// Asynchronous ops for accumulators.
#include "dataflow/queues/accumulator.h"
#include "dataflow/resources/async_op.h"

namespace rivulet {
namespace {

StatusOr<std::shared_ptr<Resource>> MakeAccumulator(const ResourceContext& context) {
  const Node& node = context.node;
  const std::string& shared_name = node.attr<std::string>("shared_name");
  RIVULET_ASSIGN_OR_RETURN(
      std::shared_ptr<Accumulator> accumulator,
      Accumulator::Create({shared_name.empty() ? node.name() : shared_name, node.attr<DType>("dtype"),
                           node.attr<Shape>("shape"), node.attr<std::string>("reduction_type") == "MEAN",
                           context.resource_manager.memory()}));
  return std::shared_ptr<Resource>(std::move(accumulator));
}

Accumulator& AccumulatorOf(AsyncContext& context) { return static_cast<Accumulator&>(*context.resources[0]); }

// The shape of a step may be unknown until the graph runs.
template <typename T>
StatusOr<T> ScalarOf(const Tensor& tensor, std::string_view argument) {
  if (tensor.shape().rank() != 0)
    return InvalidArgument("Argument {} must be scalar, but had bad shape {}", argument, tensor.shape().ToString());
  return tensor.flat<T>()[0];
}

void ApplyToAccumulator(AsyncContext& context, AsyncDone done) {
  const StatusOr<int64_t> step = ScalarOf<int64_t>(context.inputs[0], "local_step");
  if (!step.ok()) return done(step.status());
  const Status applied = AccumulatorOf(context).Apply(*step, context.inputs[1]);
  if (!applied.ok()) return done(applied);
  done(std::vector<Tensor>{});
}

void TakeFromAccumulator(AsyncContext& context, AsyncDone done) {
  const StatusOr<int32_t> required = ScalarOf<int32_t>(context.inputs[0], "num_required");
  if (!required.ok()) return done(required.status());
  AccumulatorOf(context).Take(*required, context.cancel, [done = std::move(done)](StatusOr<Tensor> value) {
    if (!value.ok()) return done(value.status());
    done(std::vector<Tensor>{*std::move(value)});
  });
}

void SetAccumulatorStep(AsyncContext& context, AsyncDone done) {
  const StatusOr<int64_t> step = ScalarOf<int64_t>(context.inputs[0], "new_global_step");
  if (!step.ok()) return done(step.status());
  AccumulatorOf(context).SetGlobalStep(*step);
  done(std::vector<Tensor>{});
}

void CountOfAccumulator(AsyncContext& context, AsyncDone done) {
  done(std::vector{Tensor::Scalar<int32_t>(AccumulatorOf(context).count())});
}

RIVULET_RESOURCE_OP("ResourceConditionalAccumulator", "Accumulator", MakeAccumulator);
RIVULET_ASYNC_OP("ResourceAccumulatorApplyGradient", ApplyToAccumulator);
RIVULET_ASYNC_OP("ResourceAccumulatorTakeGradient", TakeFromAccumulator);
RIVULET_ASYNC_OP("ResourceAccumulatorSetGlobalStep", SetAccumulatorStep);
RIVULET_ASYNC_OP("ResourceAccumulatorNumAccumulated", CountOfAccumulator);

}  // namespace
}  // namespace rivulet
