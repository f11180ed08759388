#include "cli/model/format.h"

#include <algorithm>

#include "cli/command.h"
#include "engine/base/file_system.h"
#include "engine/base/join.h"

namespace rivulet {
namespace {

std::vector<ModelFormat>& Formats() {
  static std::vector<ModelFormat> formats;
  return formats;
}

}  // namespace

RegisterModelFormat::RegisterModelFormat(ModelFormat format) {
  Formats().push_back(std::move(format));
  std::ranges::sort(Formats(), {}, &ModelFormat::name);
}

const std::vector<ModelFormat>& ModelFormats() { return Formats(); }

StatusOr<const ModelFormat*> FindModelFormat(const std::string& name, const std::string& path) {
  for (const std::string_view pickle : {".pt", ".pth", ".ckpt"}) {
    if (path.ends_with(pickle))
      return UsageError(
          "'{}': {} files are PyTorch pickles, which run code when they are opened; name a file that ends in "
          ".safetensors, "
          "with --format pytorch for PyTorch's names and layout, and use safetensors.torch.load_file and save_file "
          "there",
          path, pickle);
  }
  for (const std::string_view keras : {".keras", ".h5", ".hdf5"}) {
    if (path.ends_with(keras))
      return UsageError(
          "'{}': {} files hold Keras' layers and no graph; write the graph in Python, by rivulet.keras.scenario(model, "
          "loss=…) (docs/guide/python.md)",
          path, keras);
  }
  std::vector<std::string> names, endings;
  const ModelFormat *named = nullptr, *by_ending = nullptr;
  for (const ModelFormat& format : Formats()) {
    if (format.name == name) named = &format;
    names.push_back(format.name);
    for (const std::string& ending : format.endings) {
      if (path.ends_with(ending)) by_ending = &format;
      endings.push_back(ending);
    }
  }
  const bool adapter = name.empty() && FileSystem::Default().Exists(JoinPath(path, "adapter_config.json"));
  if (adapter) return FindModelFormat("peft", path);
  if (name.empty()) {
    if (by_ending != nullptr) return by_ending;
    return UsageError("'{}' ends in none of {}; name the format with --format: {}", path, Join(endings, ", "),
                      Join(names, ", "));
  }
  if (named == nullptr) return UsageError("there is no format '{}'; formats are {}", name, Join(names, ", "));
  if (by_ending != nullptr && by_ending != named && by_ending->name != named->container) {
    return UsageError(
        "'{}' has the ending of the format {}, but --format is {}; rename the file, or leave out --format", path,
        by_ending->name, name);
  }
  return named;
}

}  // namespace rivulet
