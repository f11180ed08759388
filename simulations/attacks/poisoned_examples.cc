// Poisoned training data. Label flipping (Fang et al. 2020, "Local model poisoning attacks", arXiv:1911.11815, section
// 5.1): label l becomes classes − 1 − l. A backdoor (Gu et al. 2017, "BadNets", arXiv:1708.06733; Bagdasaryan et al.
// 2020, arXiv:1807.00459): some examples have a white square in the last corner of their image and the label `target`,
// so that images with the square get this label; `boost` is the factor of the update, by which one attacker outweighs
// many.
#include <algorithm>

#include "engine/data/dataset.h"
#include "engine/data/example.h"
#include "simulations/attacks/attack.h"

namespace rivulet {
namespace {

// The same example with another label, and another image if given.
StatusOr<std::string> Relabelled(std::string_view example, const Attack::Features& features, int64_t label,
                                 const std::string* image) {
  RIVULET_ASSIGN_OR_RETURN(const auto all, ParseExample(example));
  ExampleBuilder builder;
  for (const auto& [name, feature] : all) {
    if (name == features.label) {
      builder.Int64(name, label);
    } else if (image != nullptr && name == features.image) {
      builder.Bytes(name, *image);
    } else if (feature.kind() == FeatureKind::kBytes && feature.count() == 1) {
      builder.Bytes(name, feature.FirstBytes());
    } else if (feature.kind() == FeatureKind::kInt64) {
      std::vector<int64_t> values(static_cast<size_t>(feature.count()));
      feature.CopyInt64s(values);
      builder.Int64s(name, values);
    } else if (feature.kind() == FeatureKind::kFloat) {
      std::vector<float> values(static_cast<size_t>(feature.count()));
      feature.CopyFloats(values);
      builder.Floats(name, values);
    } else if (feature.count() != 0) {
      return InvalidArgument("feature '{}' holds {} byte strings, which an attack on data cannot copy", name,
                             feature.count());
    }
  }
  return builder.Serialize();
}

class LabelFlip final : public Attack {
 public:
  LabelFlip(int64_t classes, Features features) : classes_(classes), features_(std::move(features)) {}
  bool poisons_data() const override { return true; }
  Status Poison(std::string& example, Draws) const override {
    int64_t label = 0;
    RIVULET_RETURN_IF_ERROR(FindInt64Feature(example, features_.label, &label));
    if (label < 0 || label >= classes_) {
      return InvalidArgument("label {} is outside attack.classes = {}; give the number of classes", label, classes_);
    }
    RIVULET_ASSIGN_OR_RETURN(example, Relabelled(example, features_, classes_ - 1 - label, nullptr));
    return absl::OkStatus();
  }

 private:
  const int64_t classes_;
  const Features features_;
};

class Backdoor final : public Attack {
 public:
  struct Options {
    int64_t target, side, width, channels;
    double share, boost;
  };
  Backdoor(const Options& options, Features features) : options_(options), features_(std::move(features)) {}

  bool poisons_data() const override { return true; }
  Status Poison(std::string& example, Draws draws) const override {
    if (draws.Uniform() >= options_.share) return absl::OkStatus();
    return PutSquare(example);
  }

  bool shows() const override { return true; }
  StatusOr<bool> Show(std::string& example) const override {
    int64_t label = 0;
    RIVULET_RETURN_IF_ERROR(FindInt64Feature(example, features_.label, &label));
    if (label == options_.target) return false;
    RIVULET_RETURN_IF_ERROR(PutSquare(example));
    return true;
  }

  bool changes_updates() const override { return options_.boost != 1; }
  Status Change(std::span<float> delta, Draws, const BenignFn&) const override {
    for (float& value : delta) value *= static_cast<float>(options_.boost);
    return absl::OkStatus();
  }

 private:
  Status PutSquare(std::string& example) const {
    std::string_view pixels;
    RIVULET_RETURN_IF_ERROR(FindBytesFeature(example, features_.image, &pixels));
    const int64_t row = options_.width * options_.channels, rows = std::ssize(pixels) / row;
    if (std::ssize(pixels) % row != 0 || rows < options_.side) {
      return InvalidArgument(
          "an image of {} bytes has no rows of attack.width × attack.channels = {}, at least {} of them", pixels.size(),
          row, options_.side);
    }
    std::string image(pixels);
    const int64_t square = options_.side * options_.channels;
    for (int64_t y = rows - options_.side; y < rows; ++y)
      std::fill_n(image.end() - (rows - y - 1) * row - square, square, '\xff');
    RIVULET_ASSIGN_OR_RETURN(example, Relabelled(example, features_, options_.target, &image));
    return absl::OkStatus();
  }

  const Options options_;
  const Features features_;
};

RIVULET_ATTACK("label_flip", {Integer("classes", 10, "Labels are 0 to one less.").Between(2, 1e9)},
               [](const Settings& settings, Attack::Features features) -> std::unique_ptr<const Attack> {
                 return std::make_unique<LabelFlip>(settings.integer("classes"), std::move(features));
               });

std::vector<Setting> BackdoorSettings() {
  return {Integer("target", 0, "Label that the square is to be taken for.").AtLeast(0),
          Integer("side", 3, "Of the white square in the image's last corner, in pixels.").Between(1, 4096),
          Integer("width", 28, "Of an image, in pixels; at least `side`.").Between(1, 65536),
          Integer("channels", 1, "Bytes of a pixel.").Between(1, 16),
          Float("share", 0.5, "Of an attacker's examples that have the square.").Between(0, 1),
          Float("boost", 1.0, "Factor of an attacker's update.").Above(0)};
}

RIVULET_ATTACK("backdoor", BackdoorSettings(),
               [](const Settings& settings, Attack::Features features) -> std::unique_ptr<const Attack> {
                 const Backdoor::Options options = {
                     .target = settings.integer("target"),
                     .side = std::min(settings.integer("side"), settings.integer("width")),
                     .width = settings.integer("width"),
                     .channels = settings.integer("channels"),
                     .share = settings.number("share"),
                     .boost = settings.number("boost")};
                 return std::make_unique<Backdoor>(options, std::move(features));
               });

}  // namespace
}  // namespace rivulet
