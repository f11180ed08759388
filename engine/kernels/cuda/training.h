// Arguments of in-place updates of variables (training.cu): one pass over a variable, its slots and the gradient.
#pragma once

#include "engine/kernels/cuda/lane_span.h"

namespace rivulet::gpu {

// "Adam_float" and so on. Variable and slots in the op's
// order, scalars (one element per lane) in the op's order.
struct OptimizerArguments {
  LaneSpan<void> variables[4];
  LaneSpan<const void> scalars[7];
  LaneSpan<const void> gradient;
  int64_t count;
  int32_t flag;  // update_slots of Adagrad, use_nesterov of Adam and Momentum
  Lanes lanes;
};

}  // namespace rivulet::gpu

#define RIVULET_GPU_OPTIMIZERS(M)                    \
  M("ResourceApplyGradientDescent", GradientDescent) \
  M("ResourceApplyMomentum", Momentum)               \
  M("ResourceApplyAdagrad", Adagrad)                 \
  M("ResourceApplyAdagradV2", AdagradV2)             \
  M("ResourceApplyAdadelta", Adadelta)               \
  M("ResourceApplyRMSProp", RmsProp)                 \
  M("ResourceApplyCenteredRMSProp", CenteredRmsProp) \
  M("ResourceApplyAdam", Adam)                       \
  M("ResourceApplyAdamW", AdamW)                     \
  M("ResourceApplyYogi", Yogi)
