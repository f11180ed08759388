#include "engine/models/presets.h"

#include <utility>

#include "engine/base/nearest.h"
#include "engine/models/preset_list.h"

namespace rivulet {
namespace {

constexpr std::pair<std::string_view, StatusOr<ModelDef> (*)()> kPresets[] = {
    {"logistic_regression", LogisticRegression},
    {"mlp", Mlp},
    {"mnist_cnn", MnistCnn},
    {"char_lstm", CharLstm},
    {"tiny_transformer", TinyTransformer},
};

}  // namespace

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const auto& [name, build] : kPresets) names.emplace_back(name);
  return names;
}

StatusOr<ModelDef> Preset(std::string_view name) {
  for (const auto& [known, build] : kPresets)
    if (known == name) return build();
  return NotFound("there is no model preset '{}'.{} Presets are {}", name, DidYouMean(name, PresetNames()),
                  fmt::join(PresetNames(), ", "));
}

}  // namespace rivulet
