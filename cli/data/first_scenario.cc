#include "cli/data/first_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "cli/shell_quote.h"
#include "engine/base/display_name.h"
#include "engine/base/file_system.h"
#include "engine/base/setting.h"

namespace rivulet {
namespace {

// The folder's own name, if it is a valid name for a run.
std::string NameOf(const std::string& folder) {
  std::error_code none;
  std::filesystem::path path = std::filesystem::absolute(folder, none).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  std::string name = path.filename().string();
  return name.empty() || name == "latest" || !CheckDisplayName("a run", name).ok() ? "first" : name;
}

// The bound of an update's values (server.value_bits) for weights of this magnitude, with room for a first step that
// overshoots.
constexpr int kUsualValueBits = 10, kMostValueBits = 30;
int ValueBitsFor(double largest) {
  return largest > 0 ? std::min(static_cast<int>(std::ceil(std::log2(largest))) + 2, kMostValueBits) : 0;
}

}  // namespace

std::string LayerText(const std::vector<std::string>& lines) {
  std::string text = "\n[[model.layers]]\n";
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::string OutputLayer(int64_t units) { return LayerText({"type = \"dense\"", fmt::format("units = {}", units)}); }

std::string ImageModel(int64_t height, int64_t width, int64_t channels, int64_t classes) {
  const auto convolution = [](int filters) {
    return LayerText({"type = \"conv2d\"", fmt::format("filters = {}", filters), "size = 3", "padding = \"same\"",
                      "activation = \"relu\""}) +
           LayerText({"type = \"max_pool\"", "padding = \"same\""});
  };
  return fmt::format("input = {{ shape = [{}, {}, {}], kind = \"pixels\" }}\n", height, width, channels) +
         convolution(16) + convolution(32) + LayerText({"type = \"flatten\""}) + OutputLayer(classes);
}

std::string LinearModel(int64_t numbers, int64_t classes) {
  return fmt::format("input = {{ shape = [{}], kind = \"values\" }}\n", numbers) + OutputLayer(classes);
}

Status WriteFirstScenario(const FirstScenario& first) {
  FileSystem& files = FileSystem::Default();
  const std::string path = JoinPath(first.folder, "scenario.toml");
  if (!files.Exists(path)) {
    std::string text = fmt::format(
        "# Written by `rivulet data import` as a beginning: rivulet simulate {}\n\n[run]\nname = {}\nrounds = 10\n\n"
        "[data]\ntrain = \"train.tfrecord\"\n",
        ShellQuote(path), ToToml(SettingValue(NameOf(first.folder))));
    if (first.has_test) text += "test = \"test.tfrecord\"\n";
    if (!first.input_feature.empty())
      text += fmt::format("input_feature = {}\n", ToToml(SettingValue(first.input_feature)));
    text += first.key.empty()
                ? fmt::format("partition = {{ clients = {} }}   # dealt at random; by_key takes a feature\n",
                              std::clamp<int64_t>(first.examples, 1, 10))
                : fmt::format("partition = {{ kind = \"by_key\", key = {} }}\n", ToToml(SettingValue(first.key)));
    text += fmt::format(
        "\n[client]\nepochs = 1\nbatch_size = 10\noptimizer = {{ kind = \"sgd\", learning_rate = {:.3g} }}\n",
        first.learning_rate);
    if (const int bits = ValueBitsFor(first.largest_target); bits > kUsualValueBits)
      text +=
          fmt::format("\n[server]\nvalue_bits = {}   # updates are as large as the numbers that are predicted\n", bits);
    text += "\n[model]\n" + first.model;
    RIVULET_RETURN_IF_ERROR(WriteFileAtomically(files, path, text));
  }
  fmt::print("rivulet simulate {}\n", ShellQuote(path));
  return absl::OkStatus();
}

}  // namespace rivulet
