// Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", CVPR 2018, table 2: 3,504,872 trained
// parameters at 1,000 classes.
#include "engine/layers/normalized_convolution.h"
#include "engine/presets/preset_list.h"
#include "engine/presets/preset_options.h"

namespace rivulet {
namespace {

struct Bottlenecks {
  int64_t expansion, filters;
  int count;
  int64_t stride;
};
constexpr Bottlenecks kBottlenecks[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                        {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};

}  // namespace

StatusOr<ModelDef> MobileNetV2(const PresetOptions& options) {
  const Normalization normalization = {options.normalization.empty() ? "batch" : options.normalization};
  return Classifier(InputOr(options, {224, 224, 3}), [&](Layers& layers, Output image) {
    ConvolutionOptions whole, point;
    whole.kernel = point.kernel = HeNormal();
    point.size = {1, 1};
    whole.strides = {2, 2};
    Output x = normalization.Convolution(layers, "conv", image, 32, whole, "relu6");
    int64_t width = 32;
    int block = 0;
    for (const Bottlenecks& stage : kBottlenecks) {
      for (int i = 0; i < stage.count; ++i) {
        const std::string name = fmt::format("block{}", ++block);
        const int64_t stride = i == 0 ? stage.stride : 1;
        const Output before = x;
        if (stage.expansion > 1)
          x = normalization.Convolution(layers, name + "_expand", x, width * stage.expansion, point, "relu6");
        whole.strides = {stride, stride};
        x = normalization.Depthwise(layers, name + "_depthwise", x, whole, "relu6");
        x = normalization.Convolution(layers, name + "_project", x, stage.filters, point, "");
        if (stride == 1 && width == stage.filters) x = layers.Add(name + "_add", x, before);
        width = stage.filters;
      }
    }
    x = normalization.Convolution(layers, "head", x, 1280, point, "relu6");
    x = layers.Dropout("dropout", layers.GlobalAvgPool("pool", x), 0.2);
    return layers.Dense("dense", x, ClassesOr(options, 1000));
  });
}

}  // namespace rivulet
