// Model presets by name. They are a separate target (engine_presets), so that clients link none of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/setting.h"
#include "engine/base/status.h"
#include "engine/models/model_def.h"

namespace rivulet {

// What a preset can be told; 0 and empty mean the preset's own.
struct PresetOptions {
  int64_t classes = 0;
  std::vector<int64_t> input = {};  // of one example: height, width, channels
  std::string normalization = "";   // batch, group, none: of the residual networks and mobilenet_v2
  std::string loss = "";            // an objective for classes (FindObjective), and its settings
  SettingValues loss_settings = {};
  std::vector<std::string> metrics = {};  // as ClassifierOptions
};

// docs/reference/models.md lists the presets, their layers and their parameters. Those of images take float32
// [?,height,width, channels] in [0,1] and int64 labels [?]; "char_lstm" and "tiny_transformer" int64 tokens and labels
// [?,80] of the vocabulary in engine/datasets/characters.h, padded with 0, which does not count. NOT_FOUND names the
// nearest. INVALID_ARGUMENT: an option that the preset has not, or that its layers refuse.
StatusOr<ModelDef> Preset(std::string_view name, const PresetOptions& options = {});
std::vector<std::string> PresetNames();

}  // namespace rivulet
