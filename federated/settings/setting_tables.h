// Tables of settings by kind and name of the configured piece: ("algorithm", "fedavg"). Pieces register theirs when the
// program starts, so that a scenario's options are checked without knowledge of their users.
//
// Lookups are thread-safe once main has started.
#pragma once

#include <map>
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
  // For kinds that a scenario section describes: a phrase that continues the name, "shuffles and deals".
  std::string doc = {};
  std::vector<std::string> files = {};  // settings that are paths of files
  // Settings that choose a piece of another kind with settings in the same table: {"sizes", "law of sizes"}.
  std::map<std::string, std::string, std::less<>> chooses = {};
  std::vector<std::string> traits = {};  // properties of the piece, by names that its kind defines

  bool IsFile(std::string_view setting) const;
  bool HasTrait(std::string_view trait) const;
  // "": the setting chooses no piece.
  std::string_view KindChosenBy(std::string_view setting) const;
};

// Adds an example for the reference page: a TOML value other than the default.
Setting WithExample(Setting setting, std::string example);

// CHECK fails at start-up, with a message, if two tables have one kind and name.
struct SettingTableRegistration {
  explicit SettingTableRegistration(SettingTable table);
};

// NOT_FOUND names the nearest of that kind: "there is no algorithm 'fedprx'. Did you mean 'fedprox'?"
StatusOr<const SettingTable*> FindSettingTable(std::string_view kind, std::string_view name);
// Names of the tables of a kind, in byte order.
std::vector<std::string> SettingTableNames(std::string_view kind);
// The tables of a kind, in byte order of their names.
std::vector<const SettingTable*> SettingTablesOf(std::string_view kind);
// Returns true if the table exists and has the trait.
bool HasTrait(std::string_view kind, std::string_view name, std::string_view trait);
// Names of the tables of a kind that have the trait, in byte order.
std::vector<std::string> NamesWithTrait(std::string_view kind, std::string_view trait);
// Those of `given` that the table has, checked, and completed by its defaults. The others belong to other pieces of the
// same section. INVALID_ARGUMENT as Settings::Read; `owner` begins its sentence.
StatusOr<Settings> ReadOwn(const SettingTable& table, const SettingValues& given, std::string_view owner);
// The tables' names that have a setting of this name.
std::vector<std::string> OwnersOf(std::string_view kind, std::string_view setting);

// "`a`, `b` and `c`".
std::string NamesInWords(std::span<const std::string> names);

// A table of such settings for a reference page, a row each.
std::string SettingsAsMarkdown(std::span<const Setting> settings);

}  // namespace rivulet
