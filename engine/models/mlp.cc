// 784-200-200-10 with ReLU, 199,210 parameters: the "2NN" of McMahan et al., "Communication-Efficient Learning of Deep
// Networks from Decentralized Data", AISTATS 2017.
#include "engine/models/layers.h"
#include "engine/models/preset_list.h"

namespace rivulet {

StatusOr<ModelDef> Mlp() {
  return Classifier(10, [](const Scope& scope, Output image) {
    Output x = Flatten(scope, image, 784);
    x = Dense(scope, "dense1", x, 784, 200, Activation::kRelu);
    x = Dense(scope, "dense2", x, 200, 200, Activation::kRelu);
    return Dense(scope, "dense3", x, 200, 10, Activation::kNone);
  });
}

}  // namespace rivulet
