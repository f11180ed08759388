// Keys of layers and inputs in the format of docs/reference/models.md.
#pragma once

#include <span>
#include <string>

#include "engine/base/join.h"
#include "engine/base/setting.h"

namespace rivulet::testing {

// Returns a Markdown table.
inline std::string SettingRows(std::span<const Setting> keys) {
  std::string rows = "| key | type | default | meaning |\n|---|---|---|---|\n";
  for (const Setting& key : keys) {
    std::string doc = key.doc;
    // Activations and initializers are listed once, above the table.
    if (!key.choices.empty() && key.choices.size() < 5) doc += fmt::format(": {}", Join(key.choices, ", "));
    const bool sizes = key.type == SettingType::kIntegers;
    std::string shown = "required";
    if (key.default_value.has_value()) {
      // A value common to all axes is written as an integer.
      const auto* list = std::get_if<std::vector<int64_t>>(&*key.default_value);
      const SettingValue one = list != nullptr && !list->empty() ? SettingValue((*list)[0]) : *key.default_value;
      shown = fmt::format("`{}`", ToToml(one));
    }
    rows +=
        fmt::format("| `{}` | {} | {} | {}. |\n", key.name, sizes ? "integer or array" : Name(key.type), shown, doc);
  }
  return rows;
}

}  // namespace rivulet::testing
