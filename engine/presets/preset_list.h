// Declarations of all presets. A preset is a function in a file, a line here and a line in presets.cc.
#pragma once

#include "engine/base/status.h"
#include "engine/models/model_def.h"
#include "engine/presets/presets.h"

namespace rivulet {

StatusOr<ModelDef> LogisticRegression(const PresetOptions& options);
StatusOr<ModelDef> Mlp(const PresetOptions& options);
StatusOr<ModelDef> MnistCnn(const PresetOptions& options);
StatusOr<ModelDef> LeNet5(const PresetOptions& options);
StatusOr<ModelDef> CifarCnn(const PresetOptions& options);
StatusOr<ModelDef> EmnistCnn(const PresetOptions& options);
StatusOr<ModelDef> FemnistCnn(const PresetOptions& options);
StatusOr<ModelDef> ResNet8(const PresetOptions& options);
StatusOr<ModelDef> ResNet20(const PresetOptions& options);
StatusOr<ModelDef> MobileNetV2(const PresetOptions& options);
StatusOr<ModelDef> CharLstm(const PresetOptions& options);
StatusOr<ModelDef> TinyTransformer(const PresetOptions& options);

}  // namespace rivulet
