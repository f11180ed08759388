#include "cli/program/option_keys.h"

#include <algorithm>

#include "federated/settings/setting_tables.h"

namespace rivulet {
namespace {

ScenarioKey KeyOfOption(std::string_view section, const Setting& setting) {
  return {.name = fmt::format("{}.{}", section, setting.name),
          .key_class = KeyClass::kPlan,
          .type = std::string(Name(setting.type)),
          .default_value = !setting.default_in_words.empty() ? setting.default_in_words
                           : setting.default_value           ? fmt::format("`{}`", ToToml(*setting.default_value))
                                                             : "none: it must be given",
          .allowed = setting.Allowed(),
          .applies_when = {},
          .example = setting.example,
          .doc = setting.doc};
}

}  // namespace

std::vector<ScenarioKey> KeysAndOptions() {
  std::vector<ScenarioKey> keys = ScenarioKeys();
  for (const char* const section : {"algorithm", "selection", "attack"}) {
    const size_t first = keys.size();
    for (const SettingTable* table : SettingTablesOf(section)) {
      for (const Setting& setting : table->settings) {
        ScenarioKey key = KeyOfOption(section, setting);
        const auto same = std::ranges::find_if(
            keys.begin() + static_cast<std::ptrdiff_t>(first), keys.end(), [&](const ScenarioKey& known) {
              return known.name == key.name && known.doc == key.doc && known.default_value == key.default_value &&
                     known.allowed == key.allowed;
            });
        if (same == keys.end()) {
          key.applies_when = fmt::format("{}.name is \"{}\"", section, table->name);
          keys.push_back(std::move(key));
        } else {
          same->applies_when += fmt::format(" or \"{}\"", table->name);
        }
      }
    }
    std::ranges::stable_sort(keys.begin() + static_cast<std::ptrdiff_t>(first), keys.end(), {}, &ScenarioKey::name);
  }
  return keys;
}

}  // namespace rivulet
