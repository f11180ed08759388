// Two 3×3 convolutions without padding, pooling, dropout, a hidden layer, dropout: the model that federated benchmarks
// train on CIFAR-10 (pfl-research, arXiv 2404.06430: 1,626,442 parameters) and on EMNIST's 62 characters (Reddi et al.,
// "Adaptive Federated Optimization", ICLR 2021: 1,206,590).
#include "engine/presets/preset_list.h"
#include "engine/presets/preset_options.h"

namespace rivulet {
namespace {

StatusOr<ModelDef> DropoutCnn(const ClassifierOptions& input, int64_t classes) {
  return Classifier(input, [&](Layers& layers, Output image) {
    const ConvolutionOptions convolution = {.padding = "VALID", .activation = "relu"};
    Output x = layers.Conv2D("conv1", image, 32, convolution);
    x = layers.Conv2D("conv2", x, 64, convolution);
    x = layers.MaxPool("pool", x, {.padding = "VALID"});
    x = layers.Dropout("dropout1", x, 0.25);
    x = layers.Flatten("flatten", x);
    x = layers.Dense("dense1", x, 128, {.activation = "relu"});
    x = layers.Dropout("dropout2", x, 0.5);
    return layers.Dense("dense2", x, classes);
  });
}

}  // namespace

StatusOr<ModelDef> CifarCnn(const PresetOptions& options) {
  return DropoutCnn(InputOr(options, {32, 32, 3}), ClassesOr(options, 10));
}
StatusOr<ModelDef> EmnistCnn(const PresetOptions& options) {
  return DropoutCnn(InputOr(options, {28, 28, 1}), ClassesOr(options, 62));
}

}  // namespace rivulet
