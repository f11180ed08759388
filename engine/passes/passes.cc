#include <array>

#include "engine/base/nearest.h"
#include "engine/passes/pass.h"

namespace rivulet {
namespace {

constexpr Pass kPasses[] = {
    {.name = "prune", .doc = "Leaves out nodes that no fetch and no target needs.", .optional = false},
    {.name = "fold_constants",
     .doc = "Computes values known before the run: constants, shapes and their consequences."},
    {.name = "inline_functions",
     .doc = "Puts the bodies of functions in the place of their calls, effects in their order; a branch whose "
            "condition is known is a call. Bodies that draw random numbers, and those marked _noinline, stay calls.",
     .run = InlineFunctions},
    {.name = "simplify_shapes",
     .doc = "Removes Identity and moves of data without effect. These are reshapes and transposes of one another or to "
            "the same shape, casts to the same type and back, slices, pads and tiles of the whole.",
     .run = SimplifyShapes},
    {.name = "simplify_arithmetic",
     .doc = "Takes out arithmetic that changes no bit: times one, minus zero, double negation, sums of one addend; "
            "division by a power of two becomes a product.",
     .run = SimplifyArithmetic},
    {.name = "common_subexpressions",
     .doc = "Merges nodes that compute the same value; reads of a variable are the same while nothing writes one.",
     .run = MergeCommonSubexpressions},
    {.name = "softmax_loss",
     .doc = "Log of Softmax becomes LogSoftmax, its gradient loses the division, and a cross-entropy written by hand "
            "becomes the op.",
     .exact = false,
     .tolerance = 1e-5,
     .run = RecogniseSoftmaxLoss},
    {.name = "layout",
     .doc =
         "Runs chains of NCHW convolutions and pools on NHWC, for which the kernels are made, with transposes at the "
         "borders.",
     .run = ChooseLayout},
    {.name = "lower_for_gpu",
     .doc = "For a GPU: Einsum becomes transposes and products, and a convolution of groups a depthwise one, or one a "
            "group.",
     .exact = false,
     .tolerance = 1e-5,
     .run = LowerForGpu},
    {.name = "fuse_products",
     .doc = "Adds bias and applies Relu or Relu6 where a MatMul or Conv2D leaves its result.",
     .run = FuseProducts},
    {.name = "fuse_pooling",
     .doc = "Fuses MaxPool of 2 by 2 with the Conv2D before it, if nothing else reads that (evaluation). Fuses the "
            "gradients of MaxPool and of the Relu before it, which writes the large tensor once.",
     .run = FusePooling},
    {.name = "fuse_normalization",
     .doc = "Applies Relu or Relu6 where a batch normalisation leaves its result, and their gradients in one.",
     .run = FuseNormalization},
    {.name = "recompute",
     .doc = "Under a memory budget, computes values again before the backward pass needs them instead of keeping them.",
     .last = true,
     .run = RecomputeWithinBudget},
    {.name = "fuse_casts",
     .doc = "Rounds a layer's weights to bfloat16 inside the products that read them, and reads a weight gradient's "
            "factors as they were before they were widened.",
     .exact = false,
     .tolerance = 1e-6},
    {.name = "fuse_updates",
     .doc = "Applies plain SGD inside the kernels that make gradients without other readers, and a dense layer's input "
            "gradient in the same walk over its weights."},
    {.name = "fuse_elements",
     .doc = "On a device: functions of elements that follow each other in one kernel, into the optimizer's update."},
};

}  // namespace

std::span<const Pass> Passes() { return kPasses; }

Status CheckPassOptions(const PassOptions& options) {
  for (const std::string& name : options.without) {
    const Pass* found = nullptr;
    std::vector<std::string> known;
    for (const Pass& pass : kPasses) {
      known.emplace_back(pass.name);
      if (pass.name == name) found = &pass;
    }
    if (found == nullptr) return NotFound("there is no pass '{}'.{}", name, DidYouMean(name, known));
    if (!found->optional) return InvalidArgument("the pass '{}' cannot be left out", name);
  }
  return absl::OkStatus();
}

}  // namespace rivulet
