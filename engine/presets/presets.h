// Model presets by name. They are a separate target (engine_presets), so that clients link none of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/setting.h"
#include "engine/base/status.h"
#include "engine/models/model_def.h"

namespace rivulet {

// Options of a preset; 0 and empty mean the preset's default.
struct PresetOptions {
  int64_t classes = 0;
  std::vector<int64_t> input = {};  // shape of one example: height, width, channels
  std::string normalization = "";   // batch, group or none, for residual networks and mobilenet_v2
  std::string loss = "";            // an objective for classes (FindObjective), and its settings
  SettingValues loss_settings = {};
  std::vector<std::string> metrics = {};  // as ClassifierOptions
};

// Makes a preset. docs/reference/models.md lists the presets, their layers and parameters. Image presets take float32
// [?,height,width, channels] in [0,1] and int64 labels [?]. "char_lstm" and "tiny_transformer" take int64 tokens and
// labels [?,80] of the vocabulary in engine/datasets/characters.h; padding 0 does not count. NOT_FOUND names the
// nearest. INVALID_ARGUMENT: an option that the preset lacks, or that its layers refuse.
StatusOr<ModelDef> Preset(std::string_view name, const PresetOptions& options = {});
std::vector<std::string> PresetNames();

}  // namespace rivulet
