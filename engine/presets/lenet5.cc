// LeNet-5 as it is taught today, 61,706 parameters: LeCun et al., "Gradient-Based Learning Applied to Document
// Recognition" (1998), with every map of the second convolution seeing all of the first, ReLU and max pooling, and a
// softmax in place of radial basis functions.
#include "engine/presets/preset_list.h"
#include "engine/presets/preset_options.h"

namespace rivulet {

StatusOr<ModelDef> LeNet5(const PresetOptions& options) {
  return Classifier(InputOr(options, {28, 28, 1}), [&](Layers& layers, Output image) {
    // 28×28 padded to the paper's 32×32.
    Output x = layers.Conv2D("conv1", image, 6, {.size = {5, 5}, .padding = "SAME", .activation = "relu"});
    x = layers.MaxPool("pool1", x, {.padding = "VALID"});
    x = layers.Conv2D("conv2", x, 16, {.size = {5, 5}, .padding = "VALID", .activation = "relu"});
    x = layers.MaxPool("pool2", x, {.padding = "VALID"});
    x = layers.Flatten("flatten", x);
    x = layers.Dense("dense1", x, 120, {.activation = "relu"});
    x = layers.Dense("dense2", x, 84, {.activation = "relu"});
    return layers.Dense("dense3", x, ClassesOr(options, 10));
  });
}

}  // namespace rivulet
