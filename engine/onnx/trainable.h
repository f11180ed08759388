// Training form of a foreign ONNX model: its scores with a loss of the engine.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/models/classifier.h"
#include "engine/models/model_def.h"

namespace rivulet::onnx {

struct TrainableOptions {
  // Shape of one example. Empty: the model's own; an image of [1, 3 or 4 channels, height, width] becomes [height,
  // width, channels].
  std::vector<int64_t> input;
  FeatureEncoding encoding = FeatureEncoding::kUint8;
  // Replaces both for models with several inputs: each input by its name in the model, in any order. Or for one.
  std::vector<InputSpec> inputs;
  TargetKind target = TargetKind::kClass;             // as ClassifierOptions
  std::string loss = "sparse_softmax_cross_entropy";  // as ClassifierOptions
  SettingValues loss_settings = {};                   // as ClassifierOptions
  std::vector<std::string> metrics = {};              // as ClassifierOptions
  std::string folder;                                 // the folder with the model's external data
  std::vector<std::string> trainable;                 // as ImportOptions
};

// Makes a model whose body is the ONNX model. Its first output is that of ModelBody, such as a score per class [batch,
// classes]; a final Softmax is removed. Floating initializers become variables with the same names and the model's
// values as initial values; running statistics of batch normalisations are in the segment "shared". In the training
// graph BatchNormalization uses the batch and Dropout is active. Examples [height, width, channels] are transposed for
// a model of [channels, height, width]; examples of another shape with as many values are reshaped. Errors as
// ImportOnnx and Classifier. INVALID_ARGUMENT also: inputs that the model lacks, or that do not fit examples of the
// given shape.
StatusOr<ModelDef> ModelFromOnnx(std::string_view bytes, const TrainableOptions& options);

}  // namespace rivulet::onnx
