#include "engine/presets/presets.h"

#include <algorithm>
#include <set>

#include "engine/base/join.h"
#include "engine/base/nearest.h"
#include "engine/models/objectives/objective.h"
#include "engine/presets/preset_list.h"

namespace rivulet {
namespace {

struct NamedPreset {
  std::string_view name;
  StatusOr<ModelDef> (*build)(const PresetOptions& options);
  bool normalizes = false;
  bool fixed = false;  // neither classes nor input can be chosen
};

constexpr NamedPreset kPresets[] = {
    {"logistic_regression", LogisticRegression},
    {"mlp", Mlp},
    {"mnist_cnn", MnistCnn},
    {"lenet5", LeNet5},
    {"cifar_cnn", CifarCnn},
    {"emnist_cnn", EmnistCnn},
    {"femnist_cnn", FemnistCnn},
    {"resnet8", ResNet8, true},
    {"resnet20", ResNet20, true},
    {"mobilenet_v2", MobileNetV2, true},
    {"char_lstm", CharLstm, false, true},
    {"tiny_transformer", TinyTransformer, false, true},
};

Status CheckOptions(const NamedPreset& preset, const PresetOptions& options) {
  if (preset.fixed && (options.classes != 0 || !options.input.empty()))
    return InvalidArgument("the preset '{}' has a fixed vocabulary and window; neither classes nor input can be chosen",
                           preset.name);
  constexpr std::string_view kOwnLoss = "sparse_softmax_cross_entropy";
  const bool own_loss =
      (options.loss.empty() || options.loss == kOwnLoss) && AreDefaults(kOwnLoss, options.loss_settings);
  if (preset.fixed && !own_loss)
    return InvalidArgument("the preset '{}' counts no padding in its loss; model.objective cannot be chosen",
                           preset.name);
  static const std::set<std::string_view> of_text = {"accuracy", "exact_match", "perplexity"};
  const auto other = std::ranges::find_if(options.metrics, [](const auto& name) { return !of_text.contains(name); });
  if (preset.fixed && other != options.metrics.end())
    return InvalidArgument(
        "the preset '{}' counts no padding, and has no metric '{}'; it has accuracy, exact_match and perplexity",
        preset.name, *other);
  if (options.classes < 0 || options.classes == 1)
    return InvalidArgument("a classifier has two classes or more, not {}", options.classes);
  if (!options.normalization.empty()) {
    static const std::vector<std::string> known = {"batch", "group", "none"};
    if (!preset.normalizes)
      return InvalidArgument("the preset '{}' has no normalization to choose; '{}' cannot be asked of it", preset.name,
                             options.normalization);
    if (std::ranges::find(known, options.normalization) == known.end())
      return InvalidArgument("there is no normalization '{}'.{} There are {}", options.normalization,
                             DidYouMean(options.normalization, known), Join(known, ", "));
  }
  const std::vector<int64_t>& input = options.input;
  if (!input.empty() && (input.size() != 3 || std::ranges::any_of(input, [](int64_t dim) { return dim < 1; })))
    return InvalidArgument("a preset's input is [height, width, channels], all at least 1, not [{}]",
                           Join(input, ", "));
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const NamedPreset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

StatusOr<ModelDef> Preset(std::string_view name, const PresetOptions& options) {
  for (const NamedPreset& preset : kPresets) {
    if (preset.name != name) continue;
    RIVULET_RETURN_IF_ERROR(CheckOptions(preset, options));
    StatusOr<ModelDef> model = preset.build(options);
    if (!model.ok()) return Annotate(model.status(), fmt::format("the preset '{}'", name));
    return model;
  }
  return NotFound("there is no model preset '{}'.{} Presets are {}", name, DidYouMean(name, PresetNames()),
                  Join(PresetNames(), ", "));
}

}  // namespace rivulet
