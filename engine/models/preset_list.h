// The presets one by one. A preset is a file, a line here and a line in presets.cc.
#pragma once

#include "engine/base/status.h"
#include "engine/models/model_def.h"

namespace rivulet {

StatusOr<ModelDef> LogisticRegression();
StatusOr<ModelDef> Mlp();
StatusOr<ModelDef> MnistCnn();
StatusOr<ModelDef> CharLstm();
StatusOr<ModelDef> TinyTransformer();

}  // namespace rivulet
