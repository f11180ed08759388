// Training form of a foreign ONNX model: its scores under a loss of the engine.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/models/classifier.h"
#include "engine/models/model_def.h"

namespace rivulet::onnx {

struct TrainableOptions {
  // Of one example; empty: the model's own, an image of [1, 3 or 4 channels, height, width] as [height, width,
  // channels].
  std::vector<int64_t> input;
  FeatureEncoding encoding = FeatureEncoding::kUint8;
  // In the place of both: each input of a model of several, by its name there, in any order; of one if need be.
  std::vector<InputSpec> inputs;
  TargetKind target = TargetKind::kClass;             // as ClassifierOptions
  std::string loss = "sparse_softmax_cross_entropy";  // as ClassifierOptions
  SettingValues loss_settings = {};                   // as ClassifierOptions
  std::vector<std::string> metrics = {};              // as ClassifierOptions
  std::string folder;                                 // where the model's external data lie
  std::vector<std::string> trainable;                 // as ImportOptions
};

// The model, whose first output is what ModelBody gives, such as a score per class [batch, classes]; a
// Softmax that gives it is left out. Initializers of a floating type are variables of their own names whose first
// values are the model's, the running statistics of batch normalisations in the segment "shared". In the training graph
// BatchNormalization is over the batch and Dropout drops. An image of examples [height, width, channels] is transposed
// for a model of [channels, height, width]; examples of as many values in another shape are reshaped.
// Errors as ImportOnnx and Classifier. INVALID_ARGUMENT besides: other inputs than the model has, an input that
// examples of the given shape do not fit.
StatusOr<ModelDef> ModelFromOnnx(std::string_view bytes, const TrainableOptions& options);

}  // namespace rivulet::onnx
