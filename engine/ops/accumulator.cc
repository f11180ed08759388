// Accumulators of gradients, with TensorFlow's names and attributes; dataflow/queues carries them out.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

constexpr std::string_view kNoAccumulatorGradient = "an accumulator's gradients were computed in other runs";

Status AccumulatorHandleShape(InferenceContext& c) {
  c.set_output(0, Shape{});
  return absl::OkStatus();
}

Status StepIsAScalar(InferenceContext& c) { return CheckScalars(c, {1}); }

// The handle's node has the shape of gradients, and a run hands out the real one.
Status TakenGradientShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckScalars(c, {1}));
  c.set_output(0, Shape::UnknownRank());
  return absl::OkStatus();
}

RIVULET_OP("ResourceConditionalAccumulator")
    .Output("handle: resource")
    .Attr("dtype: numbertype")
    .Attr("shape: shape")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Attr("reduction_type: {'MEAN', 'SUM'} = 'MEAN'")
    .Stateful()
    .Shape(AccumulatorHandleShape)
    .NotDifferentiable(std::string(kNoAccumulatorGradient))
    .Doc(
        "An accumulator of gradients: it adds up those of the current step, drops those of earlier ones, and hands "
        "out their mean (or sum) once there are enough.");

#define RIVULET_ACCUMULATOR_OP(name) \
  RIVULET_OP(name).Input("handle: resource").Stateful().NotDifferentiable(std::string(kNoAccumulatorGradient))

RIVULET_ACCUMULATOR_OP("ResourceAccumulatorApplyGradient")
    .Input("local_step: int64")
    .Input("gradient: dtype")
    .Attr("dtype: numbertype")
    .Shape(StepIsAScalar)
    .Doc("Adds a gradient that was computed at local_step; one of an earlier step than the accumulator's is dropped.");

RIVULET_ACCUMULATOR_OP("ResourceAccumulatorTakeGradient")
    .Input("num_required: int32")
    .Output("average: dtype")
    .Attr("dtype: numbertype")
    .Shape(TakenGradientShape)
    .Doc("Waits for num_required gradients, takes all that there are, and increases the accumulator's step by 1.");

RIVULET_ACCUMULATOR_OP("ResourceAccumulatorSetGlobalStep")
    .Input("new_global_step: int64")
    .Shape(StepIsAScalar)
    .Doc("Sets the accumulator's step.");

RIVULET_ACCUMULATOR_OP("ResourceAccumulatorNumAccumulated")
    .Output("num_accumulated: int32")
    .Shape(AccumulatorHandleShape)
    .Doc("How many gradients wait to be taken.");

}  // namespace
}  // namespace rivulet
