// Two 5×5 convolutions of 32 and 64 filters, each followed by 2×2 max pooling, and a hidden layer.
#include "engine/presets/preset_list.h"
#include "engine/presets/preset_options.h"

namespace rivulet {
namespace {

Output TwoConvolutions(Layers& layers, Output image, int64_t hidden, int64_t classes) {
  Output x = layers.Conv2D("conv1", image, 32, {.size = {5, 5}, .activation = "relu"});
  x = layers.MaxPool("pool1", x);
  x = layers.Conv2D("conv2", x, 64, {.size = {5, 5}, .activation = "relu"});
  x = layers.MaxPool("pool2", x);
  x = layers.Flatten("flatten", x);
  x = layers.Dense("dense1", x, hidden, {.activation = "relu"});
  return layers.Dense("dense2", x, classes);
}

}  // namespace

// 512 hidden units: 1,663,370 parameters, the CNN of McMahan et al., "Communication-Efficient Learning of Deep Networks
// from Decentralized Data", AISTATS 2017.
StatusOr<ModelDef> MnistCnn(const PresetOptions& options) {
  return Classifier(InputOr(options, {28, 28, 1}), [&](Layers& layers, Output image) {
    return TwoConvolutions(layers, image, 512, ClassesOr(options, 10));
  });
}

// 2,048 hidden units and 62 characters: 6,603,710 parameters, the FEMNIST model of Caldas et al., "LEAF: A Benchmark
// for Federated Settings", arXiv 1812.01097.
StatusOr<ModelDef> FemnistCnn(const PresetOptions& options) {
  return Classifier(InputOr(options, {28, 28, 1}), [&](Layers& layers, Output image) {
    return TwoConvolutions(layers, image, 2048, ClassesOr(options, 62));
  });
}

}  // namespace rivulet
