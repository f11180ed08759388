#include "federated/settings/setting_tables.h"

#include <algorithm>
#include <map>

#include "engine/base/check.h"
#include "engine/base/nearest.h"

namespace rivulet {
namespace {

// By kind and name. Created at first use and never destroyed: registrations of other files run before main in an
// unspecified order.
using SettingTables = std::map<std::pair<std::string, std::string>, SettingTable>;
SettingTables& Tables() {
  static auto* const tables = new SettingTables;
  return *tables;
}

}  // namespace

SettingTableRegistration::SettingTableRegistration(SettingTable table) {
  const std::pair<std::string, std::string> key = {table.kind, table.name};
  const bool added = Tables().emplace(key, std::move(table)).second;
  RIVULET_CHECK(added, "two tables of settings are of the {} '{}'", key.first, key.second);
}

Setting WithExample(Setting setting, std::string example) {
  setting.example = std::move(example);
  return setting;
}

bool SettingTable::IsFile(std::string_view setting) const { return std::ranges::find(files, setting) != files.end(); }

bool SettingTable::HasTrait(std::string_view trait) const { return std::ranges::find(traits, trait) != traits.end(); }

std::string_view SettingTable::KindChosenBy(std::string_view setting) const {
  const auto found = chooses.find(setting);
  return found == chooses.end() ? std::string_view() : found->second;
}

StatusOr<const SettingTable*> FindSettingTable(std::string_view kind, std::string_view name) {
  const auto found = Tables().find({std::string(kind), std::string(name)});
  if (found != Tables().end()) return &found->second;
  return NotFound("there is no {} '{}'.{}", kind, name, DidYouMean(name, SettingTableNames(kind)));
}

std::vector<std::string> SettingTableNames(std::string_view kind) {
  std::vector<std::string> names;
  for (const auto& [key, table] : Tables())
    if (key.first == kind) names.push_back(key.second);
  return names;
}

std::vector<const SettingTable*> SettingTablesOf(std::string_view kind) {
  std::vector<const SettingTable*> tables;
  for (const auto& [key, table] : Tables())
    if (key.first == kind) tables.push_back(&table);
  return tables;
}

bool HasTrait(std::string_view kind, std::string_view name, std::string_view trait) {
  const auto found = Tables().find({std::string(kind), std::string(name)});
  return found != Tables().end() && found->second.HasTrait(trait);
}

std::vector<std::string> NamesWithTrait(std::string_view kind, std::string_view trait) {
  std::vector<std::string> names;
  for (const SettingTable* table : SettingTablesOf(kind))
    if (table->HasTrait(trait)) names.push_back(table->name);
  return names;
}

std::string NamesInWords(std::span<const std::string> names) {
  std::string words;
  for (size_t i = 0; i < names.size(); ++i)
    words += fmt::format("{}`{}`", i == 0 ? "" : i + 1 == names.size() ? " and " : ", ", names[i]);
  return words;
}

StatusOr<Settings> ReadOwn(const SettingTable& table, const SettingValues& given, std::string_view owner) {
  SettingValues own;
  for (const auto& [name, value] : given)
    if (FindSetting(table.settings, name) != nullptr) own.emplace(name, value);
  return Settings::Read(table.settings, own, owner);
}

std::vector<std::string> OwnersOf(std::string_view kind, std::string_view setting) {
  std::vector<std::string> owners;
  for (const auto& [key, table] : Tables())
    if (key.first == kind && FindSetting(table.settings, setting) != nullptr) owners.push_back(key.second);
  return owners;
}

std::string SettingsAsMarkdown(std::span<const Setting> settings) {
  std::string page = "| option | type | default | allowed | meaning | example |\n|---|---|---|---|---|---|\n";
  for (const Setting& setting : settings) {
    const std::string allowed = setting.Allowed();
    page += fmt::format(
        "| `{}` | {} | {} | {} | {} | `{} = {}` |\n", setting.name, Name(setting.type),
        setting.default_value.has_value() ? fmt::format("`{}`", ToToml(*setting.default_value)) : "required",
        allowed.empty() ? "any" : allowed, setting.doc, setting.name, setting.example);
  }
  return page;
}

}  // namespace rivulet
