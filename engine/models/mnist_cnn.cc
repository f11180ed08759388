// Two 5×5 convolutions of 32 and 64 filters, each followed by 2×2 max pooling, then 512 and 10 units: 1,663,370
// parameters, the CNN of McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data",
// AISTATS 2017.
#include "engine/models/layers.h"
#include "engine/models/preset_list.h"

namespace rivulet {

StatusOr<ModelDef> MnistCnn() {
  return Classifier(10, [](const Scope& scope, Output image) {
    Output x = Convolution(scope, "conv1", image, 5, 1, 32, Activation::kRelu);
    x = MaxPool2(scope, "pool1", x);
    x = Convolution(scope, "conv2", x, 5, 32, 64, Activation::kRelu);
    x = MaxPool2(scope, "pool2", x);
    x = Flatten(scope, x, 7 * 7 * 64);
    x = Dense(scope, "dense1", x, 7 * 7 * 64, 512, Activation::kRelu);
    return Dense(scope, "dense2", x, 512, 10, Activation::kNone);
  });
}

}  // namespace rivulet
