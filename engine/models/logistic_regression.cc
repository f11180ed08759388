// 784-10: a linear classifier, 7,850 parameters.
#include "engine/models/layers.h"
#include "engine/models/preset_list.h"

namespace rivulet {

StatusOr<ModelDef> LogisticRegression() {
  return Classifier(10, [](const Scope& scope, Output image) {
    return Dense(scope, "dense1", Flatten(scope, image, 784), 784, 10, Activation::kNone);
  });
}

}  // namespace rivulet
