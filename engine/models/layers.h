// Layers that presets are built of. Kernels are Glorot-uniform, biases zero, as in Keras; variables are "<name>/kernel"
// and
// "<name>/bias".
#pragma once

#include <string_view>

#include "engine/base/status.h"
#include "engine/graph/scope.h"
#include "engine/models/model_def.h"

namespace rivulet {

enum class Activation { kNone, kRelu };

// x [batch, in] · kernel [in, units] + bias
Output Dense(const Scope& scope, std::string_view name, Output x, int64_t in, int64_t units, Activation activation);
// x [batch, height, width, in] convolved with kernel [size, size, in, filters], SAME, stride 1, + bias
Output Convolution(const Scope& scope, std::string_view name, Output x, int64_t size, int64_t in, int64_t filters,
                   Activation activation);
// Largest of each 2×2 window, stride 2.
Output MaxPool2(const Scope& scope, std::string_view name, Output x);
// [batch, …] as [batch, features]
Output Flatten(const Scope& scope, Output x, int64_t features);

// Builds a classifier of 28×28 grey images: placeholders "image" and "label", `body` from image to logits [batch,
// classes], "loss" (mean sparse softmax cross-entropy) and "accuracy".
StatusOr<ModelDef> Classifier(int64_t classes, Output (*body)(const Scope& scope, Output image));

}  // namespace rivulet
