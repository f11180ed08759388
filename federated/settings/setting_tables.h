// Tables of settings by the kind of thing they configure and its name: ("algorithm", "fedavg"). Pieces register theirs
// when the program starts, so that a scenario's options are checked without knowing who uses them.
//
// Reading is thread-safe once main has begun.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/setting.h"
#include "engine/base/status.h"

namespace rivulet {

struct SettingTable {
  std::string kind, name;
  std::vector<Setting> settings;
};

// A check fails, and the program ends with a sentence, where two tables have one kind and name.
struct SettingTableRegistration {
  explicit SettingTableRegistration(SettingTable table);
};

// NOT_FOUND names the nearest of that kind: "there is no algorithm 'fedprx'. Did you mean 'fedprox'?"
StatusOr<const SettingTable*> FindSettingTable(std::string_view kind, std::string_view name);
// Names of the tables of a kind, in byte order.
std::vector<std::string> SettingTableNames(std::string_view kind);
// Those of them that have a setting of this name.
std::vector<std::string> OwnersOf(std::string_view kind, std::string_view setting);

// A table of such settings for a reference page, a row each.
std::string SettingsAsMarkdown(std::span<const Setting> settings);

}  // namespace rivulet
