// Residual networks for 32×32 images: He et al., "Deep Residual Learning for Image Recognition", CVPR 2016,
// section 4.2, with its parameter-free shortcuts (option A). Three stages of n blocks of two 3×3 convolutions, 16, 32
// and 64 wide: ResNet-20 (n = 3) has 269,722 trained parameters, ResNet-8 (n = 1) 75,290.
#include "engine/layers/normalized_convolution.h"
#include "engine/presets/preset_list.h"
#include "engine/presets/preset_options.h"

namespace rivulet {
namespace {

// Every second pixel, and channels of zeros on both sides.
Output Shortcut(Layers& layers, const std::string& name, Output x, int64_t filters) {
  if (!x) return {};
  const Scope scope = layers.scope().SubScope(name + "_shortcut");
  const auto ints = [&](std::initializer_list<int32_t> values) {
    return scope.Const(Tensor::Of<int32_t>(Shape{static_cast<int64_t>(values.size())}, values));
  };
  x = scope.Op("StridedSlice", {x, ints({0, 0, 0, 0}), ints({0, 0, 0, 0}), ints({1, 2, 2, 1})},
               {{"begin_mask", int64_t{15}}, {"end_mask", int64_t{15}}});
  if (!x) return {};
  const int64_t missing = filters - x.shape().dim(3);
  const auto before = static_cast<int32_t>(missing / 2), after = static_cast<int32_t>(missing - missing / 2);
  return scope.Op("Pad", {x, scope.Const(Tensor::Of<int32_t>(Shape{4, 2}, {0, 0, 0, 0, 0, 0, before, after}))});
}

StatusOr<ModelDef> ResNet(const PresetOptions& options, int blocks) {
  const Normalization normalization = {options.normalization.empty() ? "batch" : options.normalization};
  return Classifier(InputOr(options, {32, 32, 3}), [&](Layers& layers, Output image) {
    ConvolutionOptions convolution;
    convolution.kernel = HeNormal();
    Output x = normalization.Convolution(layers, "conv", image, 16, convolution, "relu");
    for (int stage = 0; stage < 3; ++stage) {
      const int64_t filters = 16 << stage;
      for (int block = 0; block < blocks; ++block) {
        const std::string name = fmt::format("stage{}_block{}", stage + 1, block + 1);
        const bool shrinks = stage > 0 && block == 0;
        ConvolutionOptions first = convolution;
        if (shrinks) first.strides = {2, 2};
        Output y = normalization.Convolution(layers, name + "_conv1", x, filters, first, "relu");
        y = normalization.Convolution(layers, name + "_conv2", y, filters, convolution, "");
        x = layers.Add(name + "_add", y, shrinks ? Shortcut(layers, name, x, filters) : x, "relu");
      }
    }
    return layers.Dense("dense", layers.GlobalAvgPool("pool", x), ClassesOr(options, 10));
  });
}

}  // namespace

StatusOr<ModelDef> ResNet8(const PresetOptions& options) { return ResNet(options, 1); }
StatusOr<ModelDef> ResNet20(const PresetOptions& options) { return ResNet(options, 3); }

}  // namespace rivulet
