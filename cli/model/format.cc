#include "cli/model/format.h"

#include <algorithm>

#include "cli/command.h"
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
  std::vector<std::string> names, endings;
  for (const ModelFormat& format : Formats()) {
    if (!name.empty() && format.name == name) return &format;
    names.push_back(format.name);
    for (const std::string& ending : format.endings) {
      if (name.empty() && path.ends_with(ending)) return &format;
      endings.push_back(ending);
    }
  }
  if (!name.empty()) return UsageError("there is no format '{}'; formats are {}", name, Join(names, ", "));
  return UsageError("'{}' ends in none of {}; name the format with --format: {}", path, Join(endings, ", "),
                    Join(names, ", "));
}

}  // namespace rivulet
